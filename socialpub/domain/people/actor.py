"""Who acts, and what a verb has done: what every act of the domain is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Concatenate, NamedTuple, ParamSpec

from socialpub.domain.core.service import Service
from socialpub.domain.people import audit, limits
from socialpub.domain.people.tenancy import Scope
from socialpub.store.db import Tx

Body = Mapping[str, object]


class Actor(NamedTuple):
    """Whoever acts: in which scope, what the row beside the act says of them, and the Idempotency-Key they sent."""

    service: Service
    scope: Scope
    act: audit.Act
    key: limits.Key | None = None

    @property
    def request_id(self) -> str:
        return self.act.request_id

    def within(self, organization: str) -> Actor:
        """The operator, who belongs to no organization, acting in this one."""
        act = self.act._replace(organization=organization)
        return self._replace(scope=replace(self.scope, organization=organization), act=act)


def operator(service: Service, verb: str, address: str = "") -> Actor:
    """Whoever has the machine: of no organization, and with no key or session that could end."""
    return Actor(service, Scope(""), audit.Act(verb, address=address))


@dataclass(frozen=True)
class Done:
    """What a verb has done, where the body alone does not say it.

    `subject`: the id of what it was done to, or what it made; without one the body's own `id`.
    `secret`: the body shows a secret, so it is kept sealed.
    `after`: what is left to do once it is committed.
    `is_act`: it changed something, so the log of acts has it.
    """

    body: Body
    status: int = 200
    subject: str | None = None
    secret: bool = False
    after: Callable[[], Awaitable[object]] | None = field(default=None, compare=False)
    is_act: bool = True


P = ParamSpec("P")
Verb = Callable[Concatenate[Tx, Actor, P], Done | Body]
"""What somebody may do: given the transaction, who acts, and what it is about."""
