"""Plans made without network or files, recorded in the claiming transaction.

They come from the connector's own `prepare`, with a client and tokens that raise: if `prepare` needs either, the post
is prepared in the usual way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from socialpub import platforms
from socialpub.base.http import UNGUARDED_POLICY, HttpClient, Request
from socialpub.domain.accounts.tokens import EXPIRY_MARGIN_MS
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.platforms.contract import (
    Connector,
    ConnectorAccount,
    Draft,
    PreviousPiece,
    Ready,
    RuleContext,
    Tokens,
    Upstream,
)
from socialpub.platforms.kit.rule_catalog import find_violations
from socialpub.store.rows import PostRow


def build_draft(post: PostRow) -> Draft:
    """Build the frozen content without media."""
    assert post["draft_at"] is not None, "the first claim mints it"
    assert post["draft_nonce"] is not None, "the first claim mints it"
    return Draft(
        text=post["text"],
        options=json.loads(post["options"]),
        first_comment=post["first_comment"],
        now_ms=post["draft_at"],
        nonce=post["draft_nonce"],
        previous=PreviousPiece(**json.loads(post["previous"])) if post["previous"] else None,
    )


def build_rule_context(service: AppContext, recent_posts: int = 0) -> RuleContext:
    """Build the rule context beside the content."""
    return RuleContext(service.base_url, service.runtime.settings.security.allow_private_networks, recent_posts)


def plan_offline(service: AppContext, snapshot: RunSnapshot) -> Ready | None:
    """Plan a claimed post from memory; None if that is not enough.

    Quick, because it runs in a transaction; problems of the post are left to its run.
    """
    post, account, platform = snapshot.post, snapshot.account, platforms.platform(snapshot.post["platform"])
    is_started = snapshot.open_intent or snapshot.published or post["saved"]
    if is_started or not platform.plans_offline or post["media"] != "[]" or _has_expiring_tokens(service, snapshot):
        return None
    connector, site = platforms.CONNECTORS.get(platform.name), service.sites[platform.name]
    draft, connector_account = build_draft(post), upstreams.build_connector_account(account)
    if connector is None or not site.enabled or any(used(draft) for used in platform.option_images.values()):
        return None
    found = find_violations(platform, site, draft, connector_account, build_rule_context(service), ("deep",))
    plan = None if found.errors else prepare_offline(connector, site, connector_account, draft)
    return plan and Ready(plan.plan, (*found.warnings, *plan.warnings))


def prepare_offline(connector: Connector, site: Any, connector_account: ConnectorAccount, draft: Draft) -> Ready | None:
    """Run `prepare` without network; None if it needs one or makes no plan."""
    up = Upstream(_RAISING_CLIENT, _RAISING_CLIENT, site, connector_account, cast(Tokens, _RAISING_TOKENS))
    try:
        prepared = connector.prepare(up, draft, None)
    except Exception:  # noqa: BLE001 - the run prepares it again, and tells what is wrong
        return None
    return prepared if isinstance(prepared, Ready) else None


def _has_expiring_tokens(service: AppContext, snapshot: RunSnapshot) -> bool:
    """Return whether the tokens need a refresh, which must not come between intent and send."""
    ends = snapshot.account["token_expires_at"]
    return ends is not None and ends - EXPIRY_MARGIN_MS < service.now_ms


class NeedsNetworkError(Exception):
    """Plan that needs a network call or the account's tokens."""


class _RaisingClient(HttpClient):
    """HTTP client that raises."""

    def build_request(self, method: str, url: object, **options: Any) -> Request:
        raise NeedsNetworkError(str(url))


class _RaisingTokens:
    def __getattr__(self, name: str) -> Mapping[str, Any]:
        raise NeedsNetworkError(name)


_RAISING_CLIENT, _RAISING_TOKENS = _RaisingClient(UNGUARDED_POLICY), _RaisingTokens()
