"""The errors of transactions and snapshots.

=================  ==========================================================  ===================
error              what holds                                                  what to do
=================  ==========================================================  ===================
``Conflict``       nothing was committed: a table has changed meanwhile        start again
``Unavailable``    nothing was committed: locked, busy, or out of reach        try again later
``Unknown``        nobody can tell yet whether the transaction was committed   ``error.wait()``
``Refused``        nothing was committed: the request itself is wrong          correct it
``Unmanaged``      nothing was written: the catalog does not manage versions   tell the operator
``NotAtomic``      nothing was done: the operation cannot be undone            do it outside
``Finished``       nothing was done: the transaction is over                   begin another one
=================  ==========================================================  ===================

``Gateway.run`` starts again by itself after ``Conflict`` and ``Unavailable``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from ._commit import Committed, PendingCommit


class Error(Exception):
    """The base class of all errors of this package."""


class Refused(Error):
    """A request that the gateway or a catalog refuses: nothing was committed.

    ``status`` is the HTTP status, ``code`` the contract's code, ``entry`` the
    index of the change that the refusal is about.
    """

    def __init__(
        self,
        message: str,
        *,
        status: Optional[int] = None,
        code: Optional[int] = None,
        entry: Optional[int] = None,
        table: Optional[Sequence[str]] = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.entry = entry
        self.table: Optional[Tuple[str, ...]] = None if table is None else tuple(table)


class Conflict(Refused):
    """A table that was changed by somebody else, or a gateway that stopped before the decision: nothing was committed.

    ``expected`` is the version that the transaction wanted to make, ``found``
    the table's latest version, where the gateway knows it.
    """

    def __init__(
        self,
        message: str,
        *,
        table: Optional[Sequence[str]] = None,
        branch: Optional[str] = None,
        entry: Optional[int] = None,
        expected: Optional[int] = None,
        found: Optional[int] = None,
        status: Optional[int] = None,
        code: Optional[int] = None,
    ) -> None:
        super().__init__(message, status=status, code=code, entry=entry, table=table)
        self.branch = branch
        self.expected = expected
        self.found = found


class Unavailable(Refused):
    """A table that is locked, or a gateway or catalog that is out of reach: nothing was committed.

    ``locked_by`` is the transaction that holds the lock, where it is one, and
    ``retry_after`` the seconds that the gateway asks to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: Optional[float] = None,
        locked_by: Optional[str] = None,
        status: Optional[int] = None,
        code: Optional[int] = None,
        entry: Optional[int] = None,
        table: Optional[Sequence[str]] = None,
    ) -> None:
        super().__init__(message, status=status, code=code, entry=entry, table=table)
        self.retry_after = retry_after
        self.locked_by = locked_by


class Unknown(Error):
    """A commit without an answer: it may or may not have happened.

    All of it happened, or nothing, unless the error says that the gateways
    have forgotten it. ``transaction_id`` is None if no answer came. A commit
    that was never sent is ``Unavailable`` instead.
    """

    def __init__(self, message: str, pending: PendingCommit) -> None:
        super().__init__(message)
        self._pending = pending

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self._pending)

    @property
    def transaction_id(self) -> Optional[str]:
        """The gateway's name of the transaction, for its operator; None if no answer came."""
        return self._pending.transaction_id

    def wait(self, timeout: float = 300.0) -> Committed:
        """Ask until the outcome is known, ``timeout`` seconds at most. That commits nothing by itself.

        Returns if the transaction was committed. Raises ``Conflict``,
        ``Unavailable`` or ``Refused`` if it was not, and ``Unknown`` again if
        that is still not known. A request that was lost on its way stays
        unknown until somebody else changes one of its tables: nobody can tell
        before whether it still arrives. One that the gateways have forgotten
        was committed if all of its versions are there, which this asks the
        catalogs; otherwise it stays unknown: look at its tables.
        """
        return self._pending.learn(timeout)


class Unmanaged(Error):
    """A table whose catalog does not say that it manages versions.

    Such a table's writers publish to storage by themselves, past every
    gateway, so no transaction can hold anything back.
    """

    def __init__(self, table: Sequence[str]) -> None:
        super().__init__(
            f"{'.'.join(table)}: its catalog does not answer `managed_versioning: true`, so a write would be "
            "published at once. If the catalog can create versions, set `managed_versioning: set` for its backend "
            "in the gateway's configuration."
        )
        self.table: Tuple[str, ...] = tuple(table)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.table,)


class NotAtomic(Error):
    """An operation that acts at once, and so cannot be part of a transaction."""


class Finished(Error):
    """A transaction that was committed or rolled back already."""
