"""Actions: the one way in which requests, pages and commands write.

An action is a function `(tx, who, …) -> body` in the package of what it changes. This module adds what all share:
authorization, transaction, idempotent response, audit row, and work after the commit.
A request may take minutes, during which its key, session or role may be revoked. So authorization is checked again in
the writing transaction.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from socialpub.base.compact import dumps
from socialpub.base.errors import ApiError
from socialpub.domain.core.service import Service
from socialpub.domain.people import audit, limits, tenancy
from socialpub.domain.people.actor import Actor, Body, Done, Verb
from socialpub.domain.people.tenancy import Scope
from socialpub.store.db import DbFuture, Tx

T = TypeVar("T")
W = TypeVar("W")
P = ParamSpec("P")
Together = Callable[[Tx, Sequence[W]], Sequence[T]]

MANAGERS = ("owner", "admin")  # roles that manage accounts, profiles and keys
OWNERS = ("owner",)  # role that manages members


# --- Actions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deed:
    """Action with its arguments, not executed yet."""

    who: Actor
    run: Callable[[Tx], Done]


def deed(who: Actor, verb: Verb[P], *args: P.args, **kwargs: P.kwargs) -> Deed:
    """Bind an action to its actor and arguments."""

    def run(tx: Tx) -> Done:
        made = verb(tx, who, *args, **kwargs)
        return made if isinstance(made, Done) else Done(made)

    return Deed(who, run)


async def do(who: Actor, verb: Verb[P], *args: P.args, **kwargs: P.kwargs) -> Body:
    """Execute an action; return its body. Raises ApiError, with nothing written, if refused."""
    done, _ = await _done(deed(who, verb, *args, **kwargs))
    return done.body


def do_now(who: Actor, verb: Verb[P], *args: P.args, **kwargs: P.kwargs) -> Body:
    """Execute an action in a command, where no loop runs."""
    return asyncio.run(do(who, verb, *args, **kwargs))


async def answer(deed: Deed) -> limits.Answer:
    """Execute an action; return the response, which is stored for its key."""
    _, kept = await _done(deed)
    return kept


async def once(service: Service, key: limits.Key | None, ask: Callable[[], Awaitable[Deed]]) -> limits.Answer:
    """Execute the action built by `ask` once per key; a repeat gets the same bytes.

    `ask` is called after the key lookup, so that a key used for something else is refused first.
    """

    async def first() -> limits.Answer:
        return await answer(await ask())

    return await limits.once(service, key, first)


async def _done(deed: Deed) -> tuple[Done, limits.Answer]:
    done, kept = await write(deed.who.service, deed.who.scope, lambda tx: _write(tx, deed))
    if done.after:
        await done.after()
    return done, kept


def _write(tx: Tx, deed: Deed) -> tuple[Done, limits.Answer]:
    who = deed.who
    limits.check(who.service, who.key)
    done = deed.run(tx)
    if done.is_act:
        audit.record(who.service, tx, who.act, done.subject or _id_of(done.body))
    kept = limits.Answer(done.status, dumps(done.body))
    limits.remember(who.service, tx, who.key, kept, secret=done.secret)
    return done, kept


def _id_of(body: Body) -> str | None:
    return str(body["id"]) if "id" in body else None


# --- Authorization -----------------------------------------------------------------------------------------------


def write(service: Service, scope: Scope, run: Callable[[Tx], T]) -> DbFuture[T]:
    """Run `run` in one transaction in which `scope` is still authorized; return its result.

    Raises ApiError, with nothing written: `unauthenticated` for a revoked key or ended session, `unauthorized` for a
    role.
    """

    def act(tx: Tx) -> T:
        check(service, scope)
        return run(tx)

    return service.write(act)


def write_together(service: Service, scope: Scope, verb: Together[W, T], what: W) -> DbFuture[T]:
    """Run an action that can handle several requests in one transaction.

    `verb` gets every `what` and returns the results in their order. If one is refused or fails, each is run alone.
    """
    return service.write_together(_checked(verb), (service, scope, what))


@functools.cache
def _checked(verb: Together[W, T]) -> Together[tuple[Service, Scope, W], T]:
    """Wrap the action in an authorization check; cached, because groups form by function."""

    def act(tx: Tx, asked: Sequence[tuple[Service, Scope, W]]) -> Sequence[T]:
        for scope, service in {scope: service for service, scope, _ in asked}.items():
            check(service, scope)
        return verb(tx, [what for *_, what in asked])

    return act


def check(service: Service, scope: Scope) -> None:
    """Raise ApiError unless the scope is still authorized. Call in the transaction."""
    if scope.key is not None and not tenancy.key_is_valid(scope.key):
        raise ApiError("unauthenticated")
    if scope.session is not None:
        _permit(scope, tenancy.role_now(scope.session, service.now_ms))


def admit(scope: Scope) -> None:
    """Raise ApiError `unauthorized` for the wrong role; the transaction checks again."""
    _permit(scope, scope.role)


def _permit(scope: Scope, role: str | None) -> None:
    if role is None:
        raise ApiError("unauthenticated")
    if not _suffices(role, scope.needs):
        raise ApiError("unauthorized", f"This needs the role {' or '.join(scope.needs)}; yours is {role}.")


def may(scope: Scope, needs: tuple[str, ...]) -> bool:
    """Return whether the role is one of these; empty: every role."""
    return _suffices(scope.role, needs)


def _suffices(role: str, needs: tuple[str, ...]) -> bool:
    return not needs or role in needs


def manages(scope: Scope) -> bool:
    """Return whether the user may manage the organization; pages show controls accordingly."""
    return scope.role in MANAGERS


def owns(scope: Scope) -> bool:
    """Return whether the user may manage the members."""
    return scope.role in OWNERS
