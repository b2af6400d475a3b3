"""Arrow bodies of 1 GiB, up and down, one at a time. Neither end copies them: what is left is the party's work."""

import os
import socket
import sys
import time

from loads import Done
from loads.bulk import ARROW, GIB, PIECE, discard, head_of, patient, send_zeros, zeros
from machine import Failed

BULK = os.path.join(os.path.dirname(__file__), "bulk.py")


class Arrow:
    """One request after the other, each on a connection of its own."""

    unit = "GiB"

    def __init__(self, up):
        self.up = up

    def catalog(self, port, folder):
        return [sys.executable, "-B", BULK, str(port), folder]

    def run(self, server, seconds, warm_up=False):
        size = PIECE if warm_up else GIB
        began, count = time.monotonic(), 0
        if not warm_up:
            server.forget_most()
        while count == 0 or (not warm_up and time.monotonic() - began < seconds):
            self.once(server, size)
            count += 1
        took = time.monotonic() - began
        return Done(count * size / GIB, count * size / GIB / took)

    def once(self, server, size):
        token = server.site.tokens(1)[0]
        query = b'{"id":["prod","t1"],"k":1,"vector":{"single_vector":[0.5]}}'
        what, kind, length = ("insert", ARROW, size) if self.up else ("query", "application/json", len(query))
        head = (f"POST /v1/table/prod%24t1/{what}?delimiter=%24 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                f"Authorization: Bearer {token}\r\nContent-Type: {kind}\r\nX-Size: {size}\r\n"
                f"Content-Length: {length}\r\n\r\n").encode()
        with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
            patient(connection)
            connection.sendall(head if self.up else head + query)
            if self.up:
                with zeros(server.site.folder) as file:
                    send_zeros(connection, file, size)
            answer, rest = head_of(connection)
            if not answer.startswith("http/1.1 200 "):
                raise Failed(f"{server.name}: {answer}")
            if not self.up:
                if f"content-length: {size}\r\n" not in answer + "\r\n":
                    raise Failed(f"{server.name}: another length: {answer}")
                discard(connection, size - len(rest))
