"""The namespace client of pylance, each of whose requests ends in time."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, TypeVar

from lance.namespace import DynamicContextProvider, RestNamespace
from lance_namespace import ServiceUnavailableError

T = TypeVar("T")


def bounded(call: Callable[[], T], seconds: float, what: str) -> T:
    """Return what ``call`` returns. Raises ``ServiceUnavailableError`` if that takes longer than ``seconds``.

    A call that takes longer goes on in its thread, which holds nothing else
    up, and nobody hears of its outcome.
    """
    results: List[T] = []
    errors: List[BaseException] = []
    ended = threading.Event()

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=work, name=f"nsgate {what}", daemon=True).start()
    if not ended.wait(seconds):
        # The first words are those of pylance for a request that failed.
        raise ServiceUnavailableError(f"Failed to execute request: {what} has no answer after {seconds:g} s")
    if errors:
        raise errors.pop()
    return results.pop()


class _Bounded:
    """pylance's inner client. It has no limit of its own for the time of a request."""

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    def namespace_id(self) -> Any:
        """Name the client; nothing is sent."""
        return self._inner.namespace_id()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def limited(*arguments: Any) -> Any:
            return bounded(lambda: method(*arguments), self._seconds, name)

        return limited


class Client(RestNamespace):
    """pylance's namespace client with a limit for the time of each request.

    Lance asks a subclass through Python, so its own requests have the limit,
    too.
    """

    def __init__(
        self, uri: str, headers: Callable[[], Mapping[str, str]], tls: Mapping[str, Optional[str]], seconds: float
    ) -> None:
        class Headers(DynamicContextProvider):
            """The headers of each request, with a fresh token."""

            def provide_context(self, info: Dict[str, str]) -> Dict[str, str]:
                return {f"headers.{name}": value for name, value in headers().items()}

        properties = {name: value for name, value in tls.items() if value is not None}
        super().__init__(uri=uri, context_provider=Headers(), **properties)  # type: ignore[no-untyped-call]
        self._inner = _Bounded(self._inner, seconds)
