"""Acting for somebody: the one way in which a request writes.

A request may take minutes, and its key, its session or its person's role may be gone when it comes to write. So whoever
asks is looked at again, in the transaction that writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from socialpub.base.errors import ApiError
from socialpub.domain.core.service import Service
from socialpub.domain.people import tenancy
from socialpub.domain.people.tenancy import Scope
from socialpub.store.db import Answer, Tx

T = TypeVar("T")


def write(service: Service, scope: Scope, run: Callable[[Tx], T]) -> Answer[T]:
    """What `run` returns, from one transaction in which `scope` may still do it; else ApiError, and nothing written.

    `unauthenticated` once the key was revoked or the session is over, `unauthorized` once the role is not enough.
    """

    def act(tx: Tx) -> T:
        check(service, scope)
        return run(tx)

    return service.write(act)


def check(service: Service, scope: Scope) -> None:
    """Inside the transaction: ApiError unless this is still somebody who may do what was asked."""
    if scope.key is not None and not tenancy.key_is_valid(scope.key):
        raise ApiError("unauthenticated")
    if scope.session is not None:
        permit(scope, tenancy.role_now(scope.session, service.now_ms))


def permit(scope: Scope, role: str | None) -> None:
    """ApiError unless somebody with this role may do what `scope` is for; None: nobody any more."""
    if role is None:
        raise ApiError("unauthenticated")
    if scope.needs and role not in scope.needs:
        raise ApiError("unauthorized", f"This needs the role {' or '.join(scope.needs)}; yours is {role}.")
