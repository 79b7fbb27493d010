"""Policy for user-chosen URLs that receive events and messages."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.http import ssrf
from socialpub.base.http.network import resolver_executor
from socialpub.domain.context.app_context import AppContext

LOOKUP_SECONDS = 3.0


def check_url(service: AppContext, url: str) -> None:
    """Raise ApiError `webhook.url.scheme` or `webhook.url.address` for a forbidden URL."""
    security, named = service.runtime.settings.security, service.runtime.webhook_policy.named
    reason = ssrf.check_url(url, allow_private=security.allow_private_networks, named=named)
    if reason == ssrf.NOT_HTTPS:
        raise rule_error("webhook.url.scheme")
    if reason is not None:
        raise _address_error(reason)


def check_webhook(service: AppContext, url: str) -> None:
    """Raise as `check_url`, and for credentials in the URL, which logs would show."""
    if ssrf.has_credentials(url):
        raise _address_error(ssrf.HAS_CREDENTIALS)
    check_url(service, url)


async def check_address(service: AppContext, organization: str, url: str) -> None:
    """Raise as `check_url`, and for a host that resolves to a forbidden address.

    An unresolvable host passes. This is an early report; the check at each call protects.
    """
    check_url(service, url)
    parts, policy = urlsplit(url), service.runtime.webhook_policy
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        lookup = resolver_executor.submit_for(ShareKey(host, organization), policy.resolver, host, port)
        found = await asyncio.wait_for(asyncio.wrap_future(lookup), LOOKUP_SECONDS)
    except (OSError, UnicodeError, TimeoutError):
        return
    if not all(policy.may_connect(host, address, port) for address in found):
        raise _address_error("its address is private")


def get_share_key(url: str, organization: str) -> ShareKey:
    """Return the share key of calls to a URL."""
    try:
        host = urlsplit(url).netloc.lower()
    except ValueError:  # accepted under other settings; the call will be refused
        host = ""
    return ShareKey(host, organization)


def _address_error(reason: str) -> ApiError:
    remedy = "Use a public https address, or ask the operator to add the host to webhooks.allowed_hosts."
    return rule_error("webhook.url.address", f"Events are not sent to this address: {reason}.", remediation=remedy)
