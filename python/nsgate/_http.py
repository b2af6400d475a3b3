"""Requests of this package to the gateway: JSON over one pool of connections."""

from __future__ import annotations

import json
import random
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

Token = Union[None, str, Callable[[], str]]


class NoAnswer(Exception):
    """A request without a whole answer: it may have been carried out."""


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
        self._pool = urllib3.PoolManager(
            maxsize=32,
            retries=False,
            ca_certs=ca,
            cert_file=certificate,
            key_file=private_key,
        )

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
        """Send JSON; return status, JSON and headers. Raises ``NoAnswer``."""
        all_headers = {**self.headers(), "Content-Type": "application/json", **(headers or {})}
        seconds = self.timeout if timeout is None else max(0.1, min(timeout, self.timeout))
        try:
            answer = self._pool.request(
                "POST",
                self.uri + path,
                body=body,
                headers=all_headers,
                timeout=seconds,
                redirect=False,
            )
        except self._urllib3.exceptions.HTTPError as error:
            raise NoAnswer(str(error)) from error
        try:
            value = json.loads(answer.data or b"{}")
        except ValueError:
            value = None
        if isinstance(value, dict) and (answer.status < 400 or isinstance(value.get("code"), int)):
            return answer.status, value, answer.headers
        # Not the gateway's own words: a proxy between, which may have passed the request on.
        if 400 <= answer.status < 500 and answer.status != 408:
            text = f"{self.uri}{path} answers {answer.status}, and not in the contract's form: is this the gateway?"
            return answer.status, {"error": text}, answer.headers
        raise NoAnswer(f"status {answer.status}, and not in the contract's form")

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()


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
