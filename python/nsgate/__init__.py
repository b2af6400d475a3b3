"""Transactions over the tables of several catalogs.

nsgate is one address in front of several Lance table catalogs. Through it,
changes of several tables happen together or not at all, whatever catalogs the
tables are in:

>>> import nsgate
>>> gateway = nsgate.connect("http://127.0.0.1:8080", token=TOKEN)
>>> with gateway.transaction() as tx:
...     tx.table("prod", "orders").insert(orders)
...     _ = tx.table("prod", "stock").update({"left": "left - 1"}, where="sku = 'A'")

``tx.table`` is a pylance dataset, and ``tx.lancedb`` a lancedb connection;
both need ``pip install 'nsgate[client]'``. Leaving the block commits. An
exception rolls back. Until the commit nobody else sees anything of it.

Where changes really conflict, ``gateway.run`` starts again:

>>> def sell(tx):
...     _ = tx.table("prod", "stock").update({"left": "left - 1"}, where="sku = 'A'")
>>> gateway.run(sell)

``gateway.snapshot`` reads several tables of one moment:

>>> orders_then, stock_then = gateway.snapshot(["prod", "orders"], ["prod", "stock"])

What a transaction promises:

- All of its changes become visible at once, in every catalog, or none ever
  does. That holds when this program, the gateway or a catalog dies.
- A table that somebody else has changed meanwhile is never overwritten
  unseen: the same change is made on top where Lance allows that and its
  handle was not read, and otherwise the commit raises ``Conflict``.
- Tables that are only read are not protected: another writer may change them
  between the read and the commit.
- Tags, branches and cleanup act at once. Inside of a transaction they raise
  ``NotAtomic``.

A writer that goes past the gateway, to storage or to a catalog's own address,
is outside of all promises.
"""

from importlib import import_module
from typing import TYPE_CHECKING, List

from .errors import Conflict, Error, Finished, NotAtomic, Refused, Unavailable, Unknown, Unmanaged

if TYPE_CHECKING:
    from .gateway import Gateway, connect
    from .transaction import Change, Committed, Progress, Transaction

__all__ = [
    "Change",
    "Committed",
    "Conflict",
    "Error",
    "Finished",
    "Gateway",
    "NotAtomic",
    "Progress",
    "Refused",
    "Transaction",
    "Unavailable",
    "Unknown",
    "Unmanaged",
    "connect",
]

# Imported when they are asked for: the program alone needs neither pylance nor lancedb.
_LATER = {
    "Gateway": "gateway",
    "connect": "gateway",
    "Change": "transaction",
    "Committed": "transaction",
    "Progress": "transaction",
    "Transaction": "transaction",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'nsgate' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(f"nsgate.{_LATER[name]}"), name)
    except ModuleNotFoundError as error:
        message = f"nsgate.{name} needs {error.name}: pip install 'nsgate[client]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
