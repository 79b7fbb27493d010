"""Plans: checked publish requests, stored until their tokens publish them.

A token publishes once, and names the same batch when it is used again. Only its hash is stored. The stored request
names accounts, options and uploaded files as they were checked, so that nothing else can be published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from socialpub import platforms
from socialpub.base.errors import rule_error
from socialpub.base.runtime import format_iso
from socialpub.base.security import crypto
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.access.idempotency import EarlierBatchError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.posts import content_hash
from socialpub.domain.posts.targets import LEAD_MIN_MS, ResolvedTarget, dump_options
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import BatchRequest, PlanBody, ValidateRequest, ValidationBody
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance, maintenance

TOKEN_PREFIX = "plan_"
LIFETIME_MS = 15 * 60_000
DUE_LEAD_MS = 60_000  # a plan of a scheduled batch expires so long before it is due
UNUSED_MAX = 1000  # per organization
PURGE_BATCH = 500
_NO_ADDRESS = "A plan cannot hold the image at an address, which may change"
_UPLOAD_FIRST = "A plan holds uploaded files only: upload it with POST /v1/media, and name its id"


class PlannedRequest(NamedTuple):
    """Stored request of a plan. `id`: hash of its token; `content`: hash of its content."""

    id: str
    request: BatchRequest
    content: str


# --- Make ------------------------------------------------------------------------------------------------------------


def check_request(request: ValidateRequest) -> None:
    """Raise ApiError `validation_failed` for what a plan cannot hold.

    The bytes at an address may change after the check, and a slot may be taken.
    """
    sent = request.model_dump(by_alias=True, exclude_unset=True)
    issues = [
        validation.build_issue("value_error", path, _UPLOAD_FIRST, "the id of a file", "other media")
        for path in _find_unstored(sent, [])
    ]
    for index, target in enumerate(request.targets):
        if target.options is not None:
            images = platforms.platform(target.options.platform).option_images.keys()
            issues += [_build_image_issue(index, name) for name in images & dump_options(target.options).keys()]
    if request.slot is not None:
        message = "A plan names its time, in `scheduledAt`"
        issues.append(validation.build_issue("value_error", ["slot"], message, "scheduledAt", "slot"))
    if request.deep is False:
        message = "A plan needs the whole check: leave it out"
        issues.append(validation.build_issue("value_error", ["deep"], message, "true", "false"))
    if issues:
        raise validation.build_schema_error(issues)


def _build_image_issue(target: int, option: str) -> dict[str, Any]:
    path: list[str | int] = ["targets", target, "options", option]
    return validation.build_issue("value_error", path, _NO_ADDRESS, "no address", "string")


def _find_unstored(value: Any, path: list[str | int]) -> Iterator[list[str | int]]:
    """Yield the paths of media items, at any depth, that are no uploaded files."""
    if isinstance(value, Mapping):
        if "url" in value or "bytesBase64" in value:
            if "media" in path:
                yield path
            return
        for name, part in value.items():
            yield from _find_unstored(part, [*path, name])
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _find_unstored(part, [*path, index])


def create(
    tx: Tx, who: Actor, request: ValidateRequest, targets: Sequence[ResolvedTarget], checked: ValidationBody
) -> ActionResult:
    """Store a valid request as a plan; return the result of the check, with the token.

    Raises ApiError `plan.max`.
    """
    service, scope, now = who.service, who.scope, who.service.now_ms
    if sql.fetch_value(acceptance.COUNT_PLAN_TOKENS, (scope.organization, now)) >= UNUSED_MAX:
        raise rule_error("plan.max")
    targets = [target for target in targets if not target.piece]  # the pieces of a thread are in the request
    token = TOKEN_PREFIX + crypto.generate_base62(service.runtime.entropy)
    stored = _pin(request, targets)
    pinned = validation.parse_value(BatchRequest, stored)
    accounts = [target.account["id"] for target in targets]
    content = content_hash.hash_content(pinned, accounts, content_hash.load_media(scope, pinned))
    ends_at = _find_end(now, request.scheduled_at)
    row = (crypto.digest(token), scope.organization, scope.profile, json.dumps(stored), content, now, ends_at)
    sql.execute(acceptance.INSERT_PLAN_TOKEN, row)
    plan: PlanBody = {"token": token, "expiresAt": format_iso(ends_at)}
    return ActionResult({**checked, "plan": plan}, secret=True)


def _find_end(now: int, at_ms: int | None) -> int:
    """Return when a plan expires. One that is due within a minute can be used until it is due."""
    if at_ms is None:
        return now + LIFETIME_MS
    return at_ms - DUE_LEAD_MS if at_ms - DUE_LEAD_MS > now else at_ms - LEAD_MIN_MS


def _pin(request: ValidateRequest, targets: Sequence[ResolvedTarget]) -> dict[str, Any]:
    """Return the request with every target complete: account, text, media, options as resolved."""
    sent = request.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"deep", "plan", "profile_id"})
    shared = {name: value for name, value in sent.items() if name not in content_hash.NO_CONTENT}
    pinned = []
    for own, target in zip(sent["targets"], targets, strict=True):
        options = {"platform": target.platform, **target.draft.options}
        whole = {**shared, **own, "accountId": target.account["id"], "options": options}
        pinned.append(whole)
    time = {} if request.scheduled_at is None else {"scheduledAt": format_iso(request.scheduled_at)}
    kept = {name: value for name, value in sent.items() if name in ("externalId", "onDuplicate")}
    return {"targets": pinned, **time, **kept}


# --- Use -------------------------------------------------------------------------------------------------------------


def load(service: AppContext, scope: Scope, token: str) -> PlannedRequest:
    """Load the request of an unused plan. Raises as `check_unused`."""
    id = crypto.digest(token)
    profile, stored, content, batch = _find(service, scope, id)
    request = validation.parse_value(BatchRequest, json.loads(stored))
    if scope.profile not in (None, profile) or not all(scope.has_account(str(t.account_id)) for t in request.targets):
        raise rule_error("plan.unknown")
    _check_no_batch(batch)
    return PlannedRequest(id, request, content)


def check_unused(service: AppContext, scope: Scope, id: str) -> None:
    """Raise EarlierBatchError if a plan was used, ApiError `plan.unknown` if it has expired."""
    *_, batch = _find(service, scope, id)
    _check_no_batch(batch)


def _find(service: AppContext, scope: Scope, id: str) -> tuple[str | None, str, str, str | None]:
    """Return the profile, the stored request, its hash, and the batch of a plan."""
    found: tuple[str | None, str, str, str | None] | None = sql.fetch_one(
        acceptance.FIND_PLAN_TOKEN, (id, scope.organization, service.now_ms)
    )
    if found is None:
        raise rule_error("plan.unknown")
    return found


def _check_no_batch(batch: str | None) -> None:
    if batch is not None:
        raise EarlierBatchError(batch)


def use(service: AppContext, tx: Tx, id: str, batch: str) -> None:
    """Record the batch of a plan, in the transaction that accepts it."""
    until = service.now_ms + int(service.runtime.settings.retention.idempotency * 1000)
    sql.execute(acceptance.USE_PLAN_TOKEN, (batch, until, id))


def purge(service: AppContext, tx: Tx) -> int:
    """Delete a batch of expired plans; return their number."""
    return sql.update(maintenance.DELETE_PLAN_TOKENS, (service.now_ms, PURGE_BATCH))
