"""Connections that were used once and stay open: what each keeps in the memory of the party."""

import socket
import time

from loads import DESCRIBE, Done
from machine import Failed


# Seconds without a request, after which a connection counts as idle: a party may notice late, and give memory back later.
QUIET = 20


class Idle:
    """Opens them one after the other, with one request each."""

    unit = "connection"

    def __init__(self, connections=10_000):
        self.connections = connections

    def run(self, server, seconds, warm_up=False):
        head = request(server)
        count = 100 if warm_up else self.connections
        before = server.memory()
        held = []
        try:
            for _ in range(count):
                connection = socket.create_connection(("127.0.0.1", server.port), 10)
                held.append(connection)
                connection.sendall(head)
                answer = connection.recv(65536)
                if not answer.startswith(b"HTTP/1.1 200 "):
                    raise Failed(f"{server.name}: {answer[:200]}")
            # An answer in two pieces is no matter: the party has sent it.
            time.sleep(0 if warm_up else QUIET)
            server.each = (server.memory() - before) * 1024 / count
        finally:
            for connection in held:
                connection.close()
        return Done(count, 0)


def request(server, token=None):
    path, body = DESCRIBE
    token = token or server.site.tokens(1)[0]
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nx-ns-ctx-team: ml\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
