"""TLS in front of a catalog, with a certificate of a private authority.

usage: tls.py PORT AUTHORITY

Writes the authority's certificate to AUTHORITY, prints its own port, passes the
decrypted bytes on to PORT, and ends when standard input closes.
"""

import datetime
import ipaddress
import socket
import ssl
import sys
import tempfile
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(subject, key, issuer, issuer_key, extension):
    now = datetime.datetime.now(datetime.timezone.utc)
    name = lambda text: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])  # noqa: E731
    builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer)).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1)).add_extension(extension, critical=True)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(listener, context, port):
    while True:
        plain, _ = listener.accept()
        threading.Thread(target=relay, args=(plain, context, port), daemon=True).start()


def relay(plain, context, port):
    try:
        client = context.wrap_socket(plain, server_side=True)
    except (ssl.SSLError, OSError):
        return
    server = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)


def main():
    port, authority = int(sys.argv[1]), sys.argv[2]
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    itself = x509.BasicConstraints(ca=True, path_length=None)
    with open(authority, "wb") as file:
        file.write(certificate("an authority", authority_key, "an authority", authority_key, itself))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate("a catalog", key, "an authority", authority_key, names))
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        file.write(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
        file.flush()
        context.load_cert_chain(file.name)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener, context, port), daemon=True).start()
    print("port", listener.getsockname()[1], flush=True)
    sys.stdin.read()


main()
