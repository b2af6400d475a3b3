"""Requests of this package to the gateway: JSON over one pool of connections."""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import json
import os
import random
import socket
import time
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple, Union

# The most bytes of an answer.
LARGEST = 64 << 20
# The contract's codes are smaller than the least status of HTTP, which proxies give as theirs.
FIRST_STATUS = 100
Token = Union[None, str, Callable[[], str]]


class NoAnswer(Exception):
    """A request without a whole answer: it may have been carried out."""


class NotSent(NoAnswer):
    """A request of which nothing was sent, so it was not carried out: there was no connection for it."""


class _Raw(io.RawIOBase):
    """The bytes of a connection, until a moment."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._bytes: Any = connection.makefile("rb", buffering=0)
        # urllib3 has set it to what is left of the request's time.
        left = connection.gettimeout()
        self._deadline = None if left is None else time.monotonic() + left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout("the answer takes too long")
            self._connection.settimeout(left)
        return self._bytes.readinto(buffer)

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer whose time is limited as a whole. A plain one has its limit for each read anew."""

    def __init__(self, connection: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(connection, *arguments, **options)
        plain, self.fp = self.fp, io.BufferedReader(_Raw(connection))
        plain.close()


class Http:
    """A client of one gateway."""

    def __init__(
        self,
        uri: str,
        token: Token,
        headers: Mapping[str, str],
        *,
        ca: Optional[str],
        certificate: Optional[str],
        private_key: Optional[str],
        timeout: float,
    ) -> None:
        import urllib3

        self._urllib3 = urllib3
        self.uri = uri.rstrip("/")
        self._token = token
        self._headers = dict(headers)
        self.timeout = timeout
        options: Dict[str, Any] = {
            "maxsize": 32,
            "retries": False,
            "ca_certs": ca,
            "cert_file": certificate,
            "key_file": private_key,
        }
        proxy = _proxy(self.uri)
        manager = urllib3.PoolManager if proxy is None else functools.partial(urllib3.ProxyManager, proxy)
        self._new_pool = functools.partial(manager, **options)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._pool = self._new_pool()
        self._pool.pool_classes_by_scheme = _pools()

    def headers(self) -> Dict[str, str]:
        """Return the headers of the next request; a callable token is asked each time."""
        headers = dict(self._headers)
        token = self._token() if callable(self._token) else self._token
        if token:
            headers["Authorization"] = token if " " in token else f"Bearer {token}"
        return headers

    def post(
        self,
        path: str,
        body: bytes,
        *,
        headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> Tuple[int, Dict[str, Any], Mapping[str, str]]:
        """Send JSON; return status, JSON and headers. Raises ``NoAnswer``, and ``NotSent`` if nothing was sent."""
        all_headers = {**self.headers(), "Content-Type": "application/json", **(headers or {})}
        seconds = self.timeout if timeout is None else max(0.1, min(timeout, self.timeout))
        if self._process != os.getpid():
            # Connections that a fork has copied bring the answers of others.
            self._begin()
        try:
            answer = self._pool.request(
                "POST",
                self.uri + path,
                body=body,
                headers=all_headers,
                timeout=self._urllib3.Timeout(total=seconds),
                redirect=False,
                preload_content=False,
            )
            data = answer.read(LARGEST + 1)
            if len(data) > LARGEST:
                answer.close()
                raise NoAnswer(f"the answer has more than {LARGEST} bytes")
            answer.release_conn()
        except (self._urllib3.exceptions.HTTPError, OSError) as error:
            raise NoAnswer(str(error)) from error
        try:
            value = json.loads(data or b"{}")
        except ValueError:
            value = None
        if isinstance(value, dict) and (answer.status < 400 or _is_error(value)):
            return answer.status, value, answer.headers
        # Not the gateway's own words: a proxy between, which may have passed the request on.
        if 400 <= answer.status < 500 and answer.status != 408:
            text = f"{self.uri}{path} answers {answer.status}, and not in the contract's form: is this the gateway?"
            return answer.status, {"error": text}, answer.headers
        raise NoAnswer(f"status {answer.status}, and not in the contract's form")

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()


def _is_error(value: Dict[str, Any]) -> bool:
    """Return whether JSON is an error in the contract's form. Proxies have codes, too."""
    code = value.get("code")
    in_form = isinstance(code, int) and 0 <= code < FIRST_STATUS
    return in_form and all(isinstance(value.get(name), str) for name in ("error", "instance"))


def _proxy(uri: str) -> Optional[str]:
    """Return the proxy that the environment names for an address, as pylance's own requests use it."""
    parts = urllib.parse.urlsplit(uri)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


@contextlib.contextmanager
def _connecting() -> Iterator[None]:
    """Raise ``NotSent`` where no connection is made: the name, the port, the proxy or TLS is refused, or times out."""
    try:
        yield
    except Exception as error:
        raise NotSent(str(error)) from error


def _pools() -> Dict[str, Any]:
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    class Plain(HTTPConnection):
        response_class = _Answer

        def connect(self) -> None:
            with _connecting():
                super().connect()

    class Secure(HTTPSConnection):
        response_class = _Answer

        def connect(self) -> None:
            with _connecting():
                super().connect()

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


class Pace:
    """Growing, random pauses between tries, until a deadline."""

    def __init__(self, seconds: float, first: float = 0.02, most: float = 2.0) -> None:
        self.deadline = time.monotonic() + seconds
        self._next = first
        self._most = most

    def left(self) -> float:
        """Return the seconds until the deadline; 0 after it."""
        return max(0.0, self.deadline - time.monotonic())

    def pause(self, at_least: float = 0.0) -> bool:
        """Wait before the next try; False without a wait if the deadline would pass."""
        seconds = max(at_least, self._next * random.uniform(0.5, 1.5))
        self._next = min(self._next * 2, self._most)
        if seconds >= self.left():
            return False
        time.sleep(seconds)
        return True
