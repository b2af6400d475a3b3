"""A client that does not wait for the answer."""

import random
import socket
import struct
import time
import urllib.parse


def leave(url, headers, body, sent, random: random.Random):
    """Sends a request with the first `sent` bytes of its body, and closes the connection a moment later."""
    url = urllib.parse.urlsplit(url)
    target = f"{url.path}?{url.query}" if url.query else url.path
    fields = {"Host": url.netloc, **headers, "Content-Length": len(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.create_connection((url.hostname, url.port), timeout=10) as gateway:
        gateway.sendall(f"POST {target} HTTP/1.1\r\n{head}\r\n".encode() + body[:sent])
        time.sleep(random.choice([0, random.uniform(0, 0.02), random.uniform(0, 0.2)]))
        if random.random() < 0.5:
            # Makes the close a reset.
            gateway.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
