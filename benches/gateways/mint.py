"""Keys and tokens for the measurement: usage: mint.py FOLDER COUNT (needs `cryptography`).

Makes an RSA and a P-256 key, their JWKS, a token of each, and COUNT tokens of RS256, each for another subject. The
tokens live for a week; nobody trusts the keys but what is measured.
"""

import base64
import json
import multiprocessing
import os
import sys
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

LIFE = 7 * 24 * 3600


def text(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number(value):
    return text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def signed(key, algorithm, subject, now):
    header = {"alg": algorithm, "typ": "JWT", "kid": algorithm}
    claims = {
        "iss": "https://issuer.test", "aud": "catalog", "sub": subject, "iat": now, "nbf": now - 10,
        "exp": now + LIFE, "scope": "catalog.read catalog.write", "tenant": "acme",
    }
    message = ".".join(text(json.dumps(part).encode()) for part in (header, claims))
    if algorithm == "RS256":
        signature = key.sign(message.encode(), padding.PKCS1v15(), hashes.SHA256())
    else:
        pair = decode_dss_signature(key.sign(message.encode(), ec.ECDSA(hashes.SHA256())))
        signature = b"".join(half.to_bytes(32, "big") for half in pair)
    return f"{message}.{text(signature)}"


def share(work):
    pem, first, last, now = work
    key = serialization.load_pem_private_key(pem, None)
    return [signed(key, "RS256", f"user{i}", now) for i in range(first, last)]


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    now = int(time.time())
    keys = {"RS256": rsa.generate_private_key(65537, 2048), "ES256": ec.generate_private_key(ec.SECP256R1())}
    jwks = []
    for algorithm, key in keys.items():
        public = key.public_key()
        numbers = public.public_numbers()
        own = {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)} if algorithm == "RS256" else {
            "kty": "EC", "crv": "P-256",
            "x": text(numbers.x.to_bytes(32, "big")), "y": text(numbers.y.to_bytes(32, "big")),
        }
        jwks.append({"kid": algorithm, "alg": algorithm, "use": "sig", **own})
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        with open(f"{folder}/{algorithm}.pem", "wb") as file:
            file.write(pem)
        with open(f"{folder}/{algorithm}.token", "w") as file:
            file.write(signed(key, algorithm, "alice", now))
    with open(f"{folder}/jwks.json", "w") as file:
        json.dump({"keys": jwks}, file)
    pem = keys["RS256"].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    step = 500
    works = [(pem, first, min(first + step, count), now) for first in range(0, count, step)]
    with multiprocessing.Pool() as pool, open(f"{folder}/many.tokens", "w") as file:
        for tokens in pool.imap(share, works):
            file.writelines(token + "\n" for token in tokens)


main()
