"""The catalog of the Arrow case, as a program (`bulk.py PORT FOLDER`), and what its client has in common with it."""

import os
import re
import socket
import struct
import sys
import threading

GIB = 1 << 30
PIECE = 64 << 20
# Seconds.
PATIENCE = 130
ARROW = "application/vnd.apache.arrow.stream"


def zeros(folder):
    """A file of that many zeros that takes no space."""
    path = f"{folder}/zeros"
    with open(path, "ab") as file:
        file.truncate(PIECE)
    return open(path, "rb")


def patient(connection):
    """A wait has an end, and nothing small waits for more. (Python's own timeouts would make it non-blocking.)"""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", PATIENCE, 0))


def send_zeros(connection, file, size):
    """Straight from the page cache."""
    while size:
        at = (PIECE - size % PIECE) % PIECE
        size -= os.sendfile(connection.fileno(), file.fileno(), at, min(size, PIECE - at))


def discard(connection, size):
    """Linux drops what arrived, without a copy."""
    buffer = bytearray(1 << 20)
    while size > 0:
        got = connection.recv_into(buffer, min(size, len(buffer)), socket.MSG_TRUNC)
        if not got:
            raise ConnectionError(f"{size} bytes are missing")
        size -= got


def head_of(connection):
    """The head in lower case, without its empty line, and what came after it."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(65536)
        if not more:
            raise ConnectionError(f"closed after {got!r}")
        got += more
    head, rest = got.split(b"\r\n\r\n", 1)
    return head.decode("latin-1").lower(), rest


def serve(connection, folder):
    with connection, zeros(folder) as file:
        patient(connection)
        try:
            while True:
                answer(connection, file)
        except OSError:
            pass


def answer(connection, file):
    head, rest = head_of(connection)
    length = re.search(r"\ncontent-length: (\d+)", head)
    # A gateway asks for its health without a body.
    discard(connection, int(length[1]) - len(rest) if length else 0)
    if "/query" in head.split("\r\n")[0]:
        size = int(re.search(r"\nx-size: (\d+)", head)[1])
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.apache.arrow.file\r\n"
                           f"Content-Length: {size}\r\n\r\n".encode())
        send_zeros(connection, file, size)
    else:
        said = b'{"transaction_id":"1"}' if "/insert" in head else b"{}"
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(said), said))


def main():
    port, folder = int(sys.argv[1]), sys.argv[2]
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, folder), daemon=True).start()


if __name__ == "__main__":
    main()
