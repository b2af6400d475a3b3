"""One commit: sent with one key until its outcome is known."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from ._held import named
from ._http import NoAnswer, Pace
from .errors import Conflict, Refused, Unavailable, Unknown

if TYPE_CHECKING:
    from .gateway import Gateway

# The statuses of an answer that passes: nothing was committed, and the same request may succeed later.
PASSING = (408, 425, 429)
# The statuses with which the gateway refuses what a commit contains. All others may be about the question alone.
ABOUT_THE_COMMIT = (400, 404, 406, 409, 422)


@dataclass(frozen=True)
class Change:
    """One table's part of a transaction.

    ``base`` is the version that it is built on, 0 for a new table, and
    ``version`` the one that the commit makes. ``operations`` are Lance's names
    of the changes in between, where they are known.
    """

    table: Tuple[str, ...]
    branch: Optional[str]
    base: int
    version: int
    operations: Tuple[str, ...]
    created: bool = False

    def __str__(self) -> str:
        what = "created" if self.created else f"{self.base} -> {self.version}"
        operations = f" ({', '.join(self.operations)})" if self.operations else ""
        return f"{named(self.table, self.branch)}: {what}{operations}"


@dataclass(frozen=True)
class Committed:
    """The result of a commit: the gateway's name of it, and what it changed."""

    transaction_id: Optional[str]
    changes: Tuple[Change, ...]


class PendingCommit:
    """One request to commit, repeated with the same key until its outcome is known."""

    def __init__(self, gateway: Gateway, path: str, body: bytes, changes: Tuple[Change, ...]) -> None:
        self.gateway = gateway
        self.path = path
        self.body = body
        self.changes = changes
        self.key = str(uuid.uuid4())
        self.transaction_id: Optional[str] = None
        # Whether the request may have been carried out: it was sent, and the answer did not tell.
        self.is_uncertain = False

    def settle(self, timeout: float, waiting: Callable[[str], None] = lambda _: None) -> Committed:
        """Send the request until there is a definite answer. Raises an ``Error`` for every other outcome."""
        pace = Pace(timeout)
        while True:
            at_least = 0.0
            was_uncertain, self.is_uncertain = self.is_uncertain, True
            try:
                status, answer, headers = self.gateway._http.post(
                    self.path, self.body, headers={"Idempotency-Key": self.key}, timeout=pace.left()
                )
            except NoAnswer as error:
                problem = f"the gateway does not answer ({error})"
            except Exception as error:
                # Nothing was sent: there is no token, for example.
                if was_uncertain:
                    raise self.unknown(f"the answer was lost, and cannot be asked for again ({error})") from error
                self.is_uncertain = False
                raise
            else:
                if status == 200 and answer.get("transaction_id"):
                    return Committed(answer["transaction_id"], self.changes)
                at_least = seconds(headers.get("Retry-After"))
                known = answer.get("transaction_id")
                if known:
                    self.transaction_id = known
                    problem = f"transaction {known} is not decided yet"
                elif answer.get("undecided"):
                    # The gateway has passed the request on, and lost the answer.
                    problem = str(answer.get("error"))
                elif status < 300:
                    problem = f"status {status}, and not in the contract's form: is this the gateway?"
                elif not was_uncertain or is_about_the_commit(status, answer):
                    self.is_uncertain = False
                    raise refusal(status, answer, headers.get("Retry-After"))
                else:
                    # An expired token, a limit, a catalog that is away: they say nothing of the request before.
                    problem = f"the answer was lost, and the gateway refuses to repeat it ({answer.get('error')})"
                    if status in (401, 403):
                        raise self.unknown(problem)
            waiting(problem)
            if not pace.pause(at_least):
                raise self.unknown(problem)

    def unknown(self, problem: str) -> Unknown:
        """Return the error for an outcome that nobody can tell yet."""
        return Unknown(f"{problem}; it is committed completely or not at all: ask with `error.wait()`", self)


def is_about_the_commit(status: int, answer: Dict[str, Any]) -> bool:
    """Return whether a refusal is the outcome of the commit, also where the request was sent before."""
    # What is locked was never begun under this key: the gateway would have told its outcome instead.
    in_form = isinstance(answer.get("code"), int)
    return in_form and (status in ABOUT_THE_COMMIT or answer.get("locked_by") is not None)


def seconds(retry_after: Optional[str]) -> float:
    """Return the seconds of a ``Retry-After`` header, 0 if there are none."""
    try:
        return float(retry_after or 0)
    except ValueError:
        return 0.0


def refusal(status: int, answer: Dict[str, Any], retry_after: Optional[str]) -> Refused:
    """Return the error for an answer that says that nothing was committed."""
    message = str(answer.get("error") or f"status {status}")
    facts: Dict[str, Any] = {"status": status, **{name: answer.get(name) for name in ("code", "entry", "table")}}
    if status == 409:
        expected, found = answer.get("expected"), answer.get("found")
        return Conflict(message, branch=answer.get("branch"), expected=expected, found=found, **facts)
    if status in PASSING or status >= 500:
        locked_by = answer.get("locked_by")
        return Unavailable(message, retry_after=seconds(retry_after), locked_by=locked_by, **facts)
    return Refused(message, **facts)
