"""Actor of a domain action, and the result of the action."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Concatenate, NamedTuple, ParamSpec

from socialpub.domain.access import audit_log, idempotency
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.store.database import Tx

ActionBody = Mapping[str, object]


class Actor(NamedTuple):
    """Actor of an action: scope, audit context and Idempotency-Key."""

    service: AppContext
    scope: Scope
    audit: audit_log.AuditContext
    key: idempotency.IdempotencyKey | None = None

    @property
    def request_id(self) -> str:
        return self.audit.request_id

    def within(self, organization: str) -> Actor:
        """Act as the operator within one organization."""
        audit = self.audit._replace(organization=organization)
        return self._replace(scope=replace(self.scope, organization=organization), audit=audit)


def build_operator(service: AppContext, verb: str, address: str = "") -> Actor:
    """Return the operator as actor: no organization, and no key or session that can expire."""
    return Actor(service, Scope(""), audit_log.AuditContext(verb, address=address))


@dataclass(frozen=True)
class ActionResult:
    """Result of an action, where the body alone is not enough.

    `subject`: id of the row created or changed; default: the body's `id`.
    `secret`: the body shows a secret, so the stored response is encrypted.
    `batch`: id of the batch that the body shows.
    `after`: awaited after the commit.
    `is_audited`: something changed, so the action goes into the audit log.
    """

    body: ActionBody
    status: int = 200
    subject: str | None = None
    secret: bool = False
    batch: str | None = None
    after: Callable[[], Awaitable[object]] | None = field(default=None, compare=False)
    is_audited: bool = True


P = ParamSpec("P")
ActionFunction = Callable[Concatenate[Tx, Actor, P], ActionResult | ActionBody]
"""Domain action: called with the transaction, the actor and its own arguments."""
