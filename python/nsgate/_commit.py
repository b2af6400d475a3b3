"""One commit: sent with one key until its outcome is known."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, Union

from ._held import named
from ._http import NoAnswer, NotSent, Pace
from ._identity import Identity, Search
from .errors import Conflict, Finished, Refused, Unavailable, Unknown

if TYPE_CHECKING:
    from .gateway import Gateway

SNAPSHOT = "/nsgate/v1/snapshot"
# The statuses of an answer that passes: nothing was committed, and the same request may succeed later.
PASSING = (408, 425, 429)
# The statuses of a refusal that asking again does not change.
REFUSING = (400, 401, 403, 404, 406, 422)
# The code of a 409 that says that an operator has ended the commit as it was: what was made of it stays.
ENDED_AS_IT_WAS = 19


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

    def __init__(
        self,
        gateway: Gateway,
        path: str,
        body: bytes,
        changes: Tuple[Change, ...],
        makes: List[Identity],
        clean_up: Optional[Callable[[], None]] = None,
    ) -> None:
        self.gateway = gateway
        self.path = path
        self.body = body
        self.changes = changes
        # What it makes: the catalogs tell whether it was carried out where the gateways have forgotten it.
        self.makes = makes
        # Takes away what is staged; None in another process.
        self.clean_up = clean_up
        self.key = str(uuid.uuid4())
        self.transaction_id: Optional[str] = None
        # Whether the request may have been carried out: it was sent, and the answer did not tell.
        self.is_uncertain = False
        # Whether the gateway may have got anything of it.
        self.was_sent = False
        # Whether it may be sent again with its key: the last refusal passes, and the gateway does not keep it. A copy
        # that arrives late is the same commit then, and not a second one.
        self.may_be_repeated = True
        # Whether the catalogs were asked how it ended.
        self.was_searched = False
        # Why only the catalogs can tell how it ended: the gateways' log has forgotten it.
        self.forgotten: Optional[str] = None
        # The outcome, once it is known.
        self.result: Optional[Committed] = None
        self.refused: Optional[Refused] = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "clean_up": None}

    def settle(self, timeout: float, waiting: Callable[[str], None] = lambda _: None) -> Committed:
        """Send the request until there is a definite answer. Raises an ``Error`` for every other outcome."""
        self.refused = None
        try:
            self.result = self._settled(timeout, waiting)
        except Refused as refused:
            self.refused = refused
            raise
        return self.result

    def _settled(self, timeout: float, waiting: Callable[[str], None]) -> Committed:
        pace = Pace(timeout)
        problem = ""
        while True:
            at_least = 0.0
            was_uncertain, self.is_uncertain = self.is_uncertain, True
            try:
                status, answer, headers = self.gateway._http.post(
                    self.path, self.body, headers={"Idempotency-Key": self.key}, timeout=pace.left()
                )
            except NotSent as error:
                self.is_uncertain = was_uncertain
                problem = f"the gateway cannot be reached ({error})"
            except NoAnswer as error:
                self.was_sent = True
                problem = unanswered(error, problem, pace)
            except Exception as error:
                # Nothing was sent: there is no token, for example.
                if was_uncertain:
                    raise self.unknown(f"the answer was lost, and cannot be asked for again ({error})") from error
                self.is_uncertain = False
                raise
            else:
                self.was_sent = True
                at_least = seconds(headers.get("Retry-After"))
                told = self._told(status, answer, headers.get("Retry-After"), was_uncertain, pace)
                if isinstance(told, Committed):
                    return told
                problem = told
            waiting(problem)
            if not pace.pause(at_least):
                if self.is_uncertain:
                    raise self.unknown(problem)
                raise Unavailable(f"{problem}; the commit was not sent, and nothing was committed")

    def _told(
        self, status: int, answer: Dict[str, Any], retry_after: Optional[str], was_uncertain: bool, pace: Pace
    ) -> Union[Committed, str]:
        """Return the result that an answer tells, or why it tells none. Raises an ``Error`` for every other outcome."""
        known = answer.get("transaction_id")
        self.may_be_repeated = status != 409 and not answer.get("decided")
        if status == 200 and known:
            return Committed(known, self.changes)
        if known:
            self.transaction_id = known
            return f"transaction {known} is not decided yet"
        if answer.get("forgotten"):
            # Sent again, it would meet its own versions, and be refused.
            self.forgotten = str(answer.get("error"))
            return self._looked_up(pace)
        if answer.get("undecided"):
            # The gateway has passed the request on, and lost the answer.
            return str(answer.get("error"))
        if status < 300:
            return f"status {status}, and not in the contract's form: is this the gateway?"
        if not was_uncertain:
            self.is_uncertain = False
            raise refusal(status, answer, retry_after)
        # An expired token, a limit, a lock, a mount that is away: they say nothing of the request before, which may be
        # on its way still.
        said = answer.get("error")
        problem = f"the answer was lost, and the gateway refuses to repeat it ({said})"
        if status not in REFUSING and not is_final(status, answer):
            return problem
        # A refusal of one entry is made after a look into the log. So the log may have forgotten the time before, and
        # what is in the way may be its own. A refusal of all of it is what the log says: nothing is left, unless an
        # operator has ended it as it was.
        if isinstance(answer.get("entry"), int) or answer.get("code") == ENDED_AS_IT_WAS:
            try:
                search = self._searched(pace)
            except Exception as error:
                return f"{problem}; whether its versions are there cannot be asked for ({error})"
            if search.is_complete():
                return Committed(self.transaction_id, self.changes)
            if search.may_be_there():
                raise Unknown(f"{problem}. {search}. Look at these tables before you repeat the change", self)
        if answer.get("decided") and status != 409:
            # The time before may have been undone, and have used up what is staged.
            self.is_uncertain = False
            undone = f"the commit was undone, and its repetition was refused ({said})"
            raise refusal(503, {**answer, "error": undone}, None)
        if status in REFUSING:
            raise self.unknown(problem)
        self.is_uncertain = False
        raise refusal(status, answer, retry_after)

    def learn(self, timeout: float) -> Committed:
        """Ask for the outcome until it is known. The request is never carried out by that.

        It is repeated only where it cannot be carried out any more, because
        one of its versions, or of its new names, is there: the answer is that
        of the first time then, or a refusal. After a refusal what is staged is
        taken away, so that a copy of the request that arrives later is
        refused, too, whatever becomes of what was in its way.
        """
        try:
            return self._learned(timeout)
        except Refused:
            if self.clean_up is not None:
                self.clean_up()
            raise

    def _learned(self, timeout: float) -> Committed:
        if self.result is not None:
            return self.result
        if not self.is_uncertain:
            raise self.refused or Finished("the commit was not sent, so nothing was committed")
        pace = Pace(timeout)
        if self.forgotten is not None:
            self.result = self._looked_up(pace)
            return self.result
        problem: Optional[str] = ""
        while True:
            at_least = 0.0
            try:
                problem = self._asked(pace)
            except Unavailable as error:
                problem, at_least = str(error), error.retry_after or 0.0
            except NoAnswer as error:
                problem = unanswered(error, problem, pace)
            except Refused as refused:
                raise self.unknown(f"the outcome cannot be asked for ({refused})") from refused
            except Exception as error:
                # There is no token, for example.
                raise self.unknown(f"the outcome cannot be asked for ({error})") from error
            if self.result is not None:
                return self.result
            if self.refused is not None:
                raise self.refused
            if problem is None:
                return self.settle(pace.left())
            if not pace.pause(at_least):
                raise self.unknown(problem)

    def _looked_up(self, pace: Pace) -> Committed:
        """Ask the catalogs how a forgotten request ended. Raises ``Unknown`` if they do not tell."""
        try:
            search = self._searched(pace)
        except Exception as error:
            raise Unknown(f"{self.forgotten}. They cannot be asked for now ({error})", self) from error
        if search.is_complete():
            return Committed(self.transaction_id, self.changes)
        raise Unknown(f"{self.forgotten}. {search}", self)

    def _searched(self, pace: Pace) -> Search:
        """Search the catalogs for what the request makes. Raises what keeps it from searching until the time is up."""
        # A new one each time: what was absent at an earlier refusal may be there by now.
        search = Search(self.gateway, self.makes)
        self.was_searched = True
        while not search.is_over:
            try:
                search.go_on(pace)
            except Exception as error:
                if not pace.pause(getattr(error, "retry_after", None) or 0.0):
                    raise
        return search

    def _asked(self, pace: Pace) -> Optional[str]:
        """Look once; return why the outcome is not known, or None where repeating the request tells it."""
        if self.transaction_id is not None:
            status = self._ask(f"/v1/transaction/{self.transaction_id}/describe", {}, pace).get("status")
            if status == "Succeeded":
                self.result = Committed(self.transaction_id, self.changes)
            elif status == "Failed":
                self.is_uncertain = False
                self.refused = Unavailable(f"transaction {self.transaction_id} was undone; nothing was committed")
            if status is not None:
                return f"transaction {self.transaction_id} is not decided yet"
        if self._is_used_up(pace):
            return None
        return "the commit was sent and has not been carried out so far, but may be under way"

    def _is_used_up(self, pace: Pace) -> bool:
        """Ask whether the request cannot be carried out any more, or was: a version or a new name of it is there."""
        changed = [change for change in self.changes if not change.created]
        if changed:
            tables = [{"id": list(it.table), **({"branch": it.branch} if it.branch else {})} for it in changed]
            found = self._ask(SNAPSHOT, {"tables": tables}, pace).get("tables")
            # A table that is gone has no next version.
            if found is None or any(int(one["version"]["version"]) > it.base for one, it in zip(found, changed)):
                return True
        created = (change.table for change in self.changes if change.created)
        return any(self._ask(SNAPSHOT, {"tables": [{"id": list(table)}]}, pace) for table in created)

    def _ask(self, path: str, body: Dict[str, Any], pace: Pace) -> Dict[str, Any]:
        """Return an answer, or nothing where what is asked for is not there."""
        status, answer, headers = self.gateway._http.post(path, json.dumps(body).encode(), timeout=pace.left())
        if status == 200:
            return answer
        if not isinstance(answer.get("code"), int):
            # A proxy that does not find the gateway, for example. It says nothing of the tables.
            raise Unavailable(f"status {status}, and not in the contract's form: is this the gateway?")
        if status == 404:
            return {}
        raise refusal(status, answer, headers.get("Retry-After"))

    def unknown(self, problem: str) -> Unknown:
        """Return the error for an outcome that nobody can tell yet."""
        return Unknown(f"{problem}; it is committed completely or not at all: ask with `error.wait()`", self)


def unanswered(error: NoAnswer, known: Optional[str], pace: Pace) -> str:
    """Return what a request without an answer tells: nothing new, if it only ended because the time is up."""
    if known and not pace.left():
        return known
    return f"the gateway does not answer ({error})"


def is_final(status: int, answer: Dict[str, Any]) -> bool:
    """Return whether a refusal is the outcome of the commit also where the request was sent before.

    Another writer's version stays, so that a copy of the request that arrives
    later is refused, too. Every other reason may be gone by then.
    """
    return status == 409 and isinstance(answer.get("code"), int)


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
