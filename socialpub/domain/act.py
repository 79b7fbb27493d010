"""Acting for somebody: the one way in which a request, a page or a command writes.

A verb is a function `(tx, who, …) -> body` in the room of what it changes. Everything around it is here, and the same
for whoever asks: whether they still may, the transaction, the answer that is kept for an Idempotency-Key, the row of
the act, and what is left to do after the commit. A caller parses, acts and shows.

A request may take minutes, and its key, its session or its person's role may be gone when it comes to write. So whoever
asks is looked at again, in the transaction that writes.
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

MANAGERS = ("owner", "admin")  # the roles that manage an organization: its accounts, its profiles and its keys
OWNERS = ("owner",)  # the role that manages its members


# --- Verbs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deed:
    """A verb with all that it needs, not done yet."""

    who: Actor
    run: Callable[[Tx], Done]


def deed(who: Actor, verb: Verb[P], *args: P.args, **kwargs: P.kwargs) -> Deed:
    """What `who` wants done."""

    def run(tx: Tx) -> Done:
        made = verb(tx, who, *args, **kwargs)
        return made if isinstance(made, Done) else Done(made)

    return Deed(who, run)


async def do(who: Actor, verb: Verb[P], *args: P.args, **kwargs: P.kwargs) -> Body:
    """Do it; the verb's body. ApiError, and nothing written, where `who` may not, or the verb says no."""
    done, _ = await _done(deed(who, verb, *args, **kwargs))
    return done.body


def do_now(who: Actor, verb: Verb[P], *args: P.args, **kwargs: P.kwargs) -> Body:
    """The same for a command, where no loop runs."""
    return asyncio.run(do(who, verb, *args, **kwargs))


async def answer(deed: Deed) -> limits.Answer:
    """Do it; what answers it, and is kept for its key."""
    _, kept = await _done(deed)
    return kept


async def once(service: Service, key: limits.Key | None, ask: Callable[[], Awaitable[Deed]]) -> limits.Answer:
    """The answer to the deed that `ask` comes to, done once for its key: a repeat gets the same bytes.

    `ask` is called after the key was looked up: a key that was sent for something else says so first.
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


# --- Who may -----------------------------------------------------------------------------------------------------


def write(service: Service, scope: Scope, run: Callable[[Tx], T]) -> DbFuture[T]:
    """What `run` returns, from one transaction in which `scope` may still do it; else ApiError, and nothing written.

    `unauthenticated` once the key was revoked or the session is over, `unauthorized` once the role is not enough.
    """

    def act(tx: Tx) -> T:
        check(service, scope)
        return run(tx)

    return service.write(act)


def write_together(service: Service, scope: Scope, verb: Together[W, T], what: W) -> DbFuture[T]:
    """The same of a verb that can do several at once: what comes together is done in one go.

    `verb` is given each `what`, and answers for each in their order. Where one of them may not be done, or fails, each
    is done by itself.
    """
    return service.write_together(_checked(verb), (service, scope, what))


@functools.cache
def _checked(verb: Together[W, T]) -> Together[tuple[Service, Scope, W], T]:
    """The verb, of those who may: one function for each, since what is done together is told by it."""

    def act(tx: Tx, asked: Sequence[tuple[Service, Scope, W]]) -> Sequence[T]:
        for scope, service in {scope: service for service, scope, _ in asked}.items():
            check(service, scope)
        return verb(tx, [what for *_, what in asked])

    return act


def check(service: Service, scope: Scope) -> None:
    """Inside the transaction: ApiError unless this is still somebody who may do what was asked."""
    if scope.key is not None and not tenancy.key_is_valid(scope.key):
        raise ApiError("unauthenticated")
    if scope.session is not None:
        _permit(scope, tenancy.role_now(scope.session, service.now_ms))


def admit(scope: Scope) -> None:
    """ApiError `unauthorized` unless whoever came in may do what `scope` is for. The transaction looks once more."""
    _permit(scope, scope.role)


def _permit(scope: Scope, role: str | None) -> None:
    if role is None:
        raise ApiError("unauthenticated")
    if not _suffices(role, scope.needs):
        raise ApiError("unauthorized", f"This needs the role {' or '.join(scope.needs)}; yours is {role}.")


def may(scope: Scope, needs: tuple[str, ...]) -> bool:
    """Whether the role of whoever asks is one of these; none named: every role is."""
    return _suffices(scope.role, needs)


def _suffices(role: str, needs: tuple[str, ...]) -> bool:
    return not needs or role in needs


def manages(scope: Scope) -> bool:
    """Whether whoever asks may manage the organization: what a page shows depends on it."""
    return scope.role in MANAGERS


def owns(scope: Scope) -> bool:
    """Whether whoever asks may manage the organization's members."""
    return scope.role in OWNERS
