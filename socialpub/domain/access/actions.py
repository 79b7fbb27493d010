"""Actions: the one way in which requests, pages and commands write.

An action is a function `(tx, who, …) -> body` in the package of what it changes. This module adds what all share:
authorization, transaction, idempotent response, audit row, and work after the commit.
A request may take minutes, during which its key, session or role may be revoked. So authorization is checked again in
the writing transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from socialpub.base.errors import ApiError
from socialpub.base.json_codec import dumps
from socialpub.domain.access import audit_log, authentication, idempotency
from socialpub.domain.access.actor import ActionBody, ActionFunction, ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.store.database import DbFuture, Tx

T = TypeVar("T")
W = TypeVar("W")
P = ParamSpec("P")
GroupAction = Callable[[Tx, Sequence[W]], Sequence[T]]

MANAGER_ROLES = ("owner", "admin")  # roles that manage accounts, profiles and keys
OWNER_ROLES = ("owner",)  # role that manages members
PUBLISHER_ROLES = ("owner", "admin", "member")  # roles that publish; authors only draft and propose


# --- Actions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoundAction:
    """Action with its arguments, not executed yet.

    `cleanup`: entered around the transaction, for its failure.
    """

    who: Actor
    run: Callable[[Tx], ActionResult]
    cleanup: contextlib.AbstractAsyncContextManager[None] = field(default_factory=contextlib.nullcontext)


def bind(who: Actor, action: ActionFunction[P], *args: P.args, **kwargs: P.kwargs) -> BoundAction:
    """Bind an action to its actor and arguments."""

    def run(tx: Tx) -> ActionResult:
        result = action(tx, who, *args, **kwargs)
        return result if isinstance(result, ActionResult) else ActionResult(result)

    return BoundAction(who, run)


async def perform(who: Actor, action: ActionFunction[P], *args: P.args, **kwargs: P.kwargs) -> ActionBody:
    """Execute an action; return its body. Raises ApiError, with nothing written, if refused."""
    return await perform_bound(bind(who, action, *args, **kwargs))


async def perform_bound(action: BoundAction) -> ActionBody:
    """Execute a bound action as `perform` does."""
    result, _ = await _perform(action)
    return result.body


def perform_sync(who: Actor, action: ActionFunction[P], *args: P.args, **kwargs: P.kwargs) -> ActionBody:
    """Execute an action in a command, where no loop runs."""
    return asyncio.run(perform(who, action, *args, **kwargs))


async def respond(action: BoundAction) -> idempotency.StoredResponse:
    """Execute an action; return the response, which is stored for its key."""
    _, response = await _perform(action)
    return response


async def respond_once(
    service: AppContext, key: idempotency.IdempotencyKey | None, build: Callable[[], Awaitable[BoundAction]]
) -> idempotency.StoredResponse:
    """Execute the action built by `build` once per key; a repeat gets the same bytes.

    `build` is called after the key lookup, so that a key used for something else is refused first.
    """

    async def first() -> idempotency.StoredResponse:
        return await respond(await build())

    return await idempotency.run_once(service, key, first)


async def _perform(action: BoundAction) -> tuple[ActionResult, idempotency.StoredResponse]:
    async with action.cleanup:
        result, response = await write(action.who.service, action.who.scope, lambda tx: _write_result(tx, action))
    if result.after:
        await result.after()
    return result, response


def _write_result(tx: Tx, action: BoundAction) -> tuple[ActionResult, idempotency.StoredResponse]:
    who = action.who
    idempotency.check_unused(who.service, who.key)
    result = action.run(tx)
    if result.is_audited:
        audit_log.record(who.service, tx, who.audit, result.subject or _get_body_id(result.body))
    response = idempotency.StoredResponse(result.status, dumps(result.body), batch=result.batch)
    idempotency.insert(who.service, tx, who.key, response, secret=result.secret)
    return result, response


def _get_body_id(body: ActionBody) -> str | None:
    return str(body["id"]) if "id" in body else None


# --- Authorization -----------------------------------------------------------------------------------------------


def write(service: AppContext, scope: Scope, run: Callable[[Tx], T]) -> DbFuture[T]:
    """Run `run` in one transaction in which `scope` is still authorized; return its result.

    Raises ApiError, with nothing written: `unauthenticated` for a revoked key or ended session, `unauthorized` for a
    role.
    """

    def run_authorized(tx: Tx) -> T:
        check_scope(service, scope)
        return run(tx)

    return service.write(run_authorized)


def write_together(service: AppContext, scope: Scope, action: GroupAction[W, T], value: W) -> DbFuture[T]:
    """Run an action that can handle several requests in one transaction.

    `action` gets every `value` and returns the results in their order. If one is refused or fails, each is run alone.
    """
    return service.write_together(_add_authorization(action), (service, scope, value))


@functools.cache
def _add_authorization(action: GroupAction[W, T]) -> GroupAction[tuple[AppContext, Scope, W], T]:
    """Wrap the action in an authorization check; cached, because groups form by function."""

    def run_authorized(tx: Tx, inputs: Sequence[tuple[AppContext, Scope, W]]) -> Sequence[T]:
        for scope, service in {scope: service for service, scope, _ in inputs}.items():
            check_scope(service, scope)
        return action(tx, [value for *_, value in inputs])

    return run_authorized


def check_scope(service: AppContext, scope: Scope) -> None:
    """Raise ApiError unless the scope is still authorized. Call in the transaction."""
    if scope.key is not None:
        authentication.check_key(service, scope.key)
    if scope.session is not None:
        _check_role(scope, authentication.find_role(scope.session, service.now_ms))


def authorize(scope: Scope) -> None:
    """Raise ApiError `unauthorized` for the wrong role; the transaction checks again."""
    _check_role(scope, scope.role)


def _check_role(scope: Scope, role: str | None) -> None:
    if role is None:
        raise ApiError("unauthenticated")
    if not _is_sufficient(role, scope.needs):
        raise ApiError("unauthorized", f"This needs the role {' or '.join(scope.needs)}; yours is {role}.")


def has_role(scope: Scope, needs: tuple[str, ...]) -> bool:
    """Return whether the role is one of these; empty: every role."""
    return _is_sufficient(scope.role, needs)


def _is_sufficient(role: str, needs: tuple[str, ...]) -> bool:
    return not needs or role in needs


def can_manage(scope: Scope) -> bool:
    """Return whether the user may manage the organization; pages show controls accordingly."""
    return scope.role in MANAGER_ROLES


def can_publish(scope: Scope) -> bool:
    """Return whether the user may publish, and change what is scheduled."""
    return scope.role in PUBLISHER_ROLES


def can_manage_members(scope: Scope) -> bool:
    """Return whether the user may manage the members."""
    return scope.role in OWNER_ROLES
