"""What a party is told before it starts."""

import dataclasses
import itertools

ISSUER = "https://issuer.test"
AUDIENCE = "catalog"
# Connections that are kept to the catalog, for all that have such a number: more than any load has.
KEPT = 1024


@dataclasses.dataclass
class Site:
    """Where a party listens, what is behind it, and what the case asks of it."""

    folder: str
    port: int
    catalog: int
    # Of keys and tokens.
    keys: str
    algorithm: str = "RS256"
    workers: int = 1
    # Client connections, at most.
    connections: int = 4096
    # HTTP/2 without TLS, from clients.
    http2: bool = False
    # The same to the catalog, by prior knowledge.
    catalog_http2: bool = False
    # Bodies are passed on as they come, in pieces of so many bytes at the most where a party has such a setting; "" is
    # its default.
    streaming: bool = False
    piece: str = ""
    # One line for each request.
    access_log: bool = False
    # Of the gateway: name at the gateway, name at the catalog.
    mounts: tuple = (("prod", "prod"),)
    # Of the gateway: a port for its metrics.
    admin: int = 0

    def tokens(self, count):
        """One for each of as many subjects, or the one of this algorithm."""
        if count == 1:
            with open(f"{self.keys}/{self.algorithm}.token") as file:
                return [file.read()]
        with open(f"{self.keys}/many.tokens") as file:
            return [line.strip() for line in itertools.islice(file, count)]

    def write(self, name, text):
        path = f"{self.folder}/{name}"
        with open(path, "w") as file:
            file.write(text)
        return path
