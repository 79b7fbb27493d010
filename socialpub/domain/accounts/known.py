"""What the thread that writes knows by heart of the accounts that are posted to: their rows, while they are connected.

What `statements/settled.py` does not name of an account may be older: how it is renewed, which no run asks for.
"""

from __future__ import annotations

from collections.abc import Iterable

from socialpub.domain.core.service import Service
from socialpub.store.rows import AccountRow


def row(service: Service, account: str) -> AccountRow | None:
    """That of an account as the transaction sees it; None where it is not known."""
    found: AccountRow | None = service.standing.found(("account", account))
    return found


def keep(service: Service, rows: Iterable[AccountRow], version: int) -> None:
    """Know these from now on, which were read after the version was asked for (`service.db.settled`)."""
    for row in rows:
        if row["disconnected_at"] is None:
            service.standing.keep(("account", row["id"]), row, version)
