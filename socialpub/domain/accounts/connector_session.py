"""Connector calls of one run, with token refresh."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, TypeVar

from socialpub import platforms
from socialpub.base.errors import ApiError, Outcome, rule_error
from socialpub.domain.accounts import accounts
from socialpub.domain.accounts.tokens import (
    EXPIRY_MARGIN_MS,
    decrypt,
    digest,
    open_upstream,
    redact_reply,
    refresh_tokens,
)
from socialpub.domain.context.app_context import AppContext
from socialpub.platforms.contract import Connector, Platform, Tokens, Upstream
from socialpub.store.rows import AccountRow

T = TypeVar("T")


class StorageError(Exception):
    """The disk or the processor failed a run; the post is resumed when its lease expires."""


@dataclass
class ConnectorSession:
    """Connector calls for one account. The first call decrypts the tokens."""

    service: AppContext
    account: AccountRow
    just_seen: bool = False  # revocation was checked by the transaction that recorded the send
    tokens: Tokens | None = None

    @property
    def platform(self) -> Platform:
        return platforms.platform(self.account["platform"])

    @property
    def site(self) -> Any:
        return self.service.sites[self.account["platform"]]

    @property
    def connector(self) -> Connector:
        """Return the connector. Raises ApiError `platform_not_enabled`."""
        accounts.check_enabled(self.service, self.platform)
        return platforms.CONNECTORS[self.platform.name]

    def call(self, step: Callable[[Upstream], T], *, is_lookup: bool = False, bound: Container[str] = frozenset()) -> T:
        """Run one connector step; refresh an expired access token once and repeat the step.

        `is_lookup`: continue with a token that cannot be refreshed, and without a token for a revoked account where the
        platform allows anonymous reads.
        """
        if is_lookup and self.is_revoked():
            return self._with_upstream(step, self._run_unsent(self._get_anonymous), bound)
        if self.tokens is None:
            self.tokens = self._run_unsent(lambda: self._open(refresh=not is_lookup))
        tokens = self.tokens
        try:
            return self._with_upstream(step, tokens, bound)
        except ApiError as error:
            if not error.stale_token or not tokens.refresh:
                raise
        self.tokens = self._run_unsent(lambda: self._refresh(tokens))
        return self._with_upstream(step, self.tokens, bound)

    def is_revoked(self) -> bool:
        """Read whether the account is revoked; its tokens are not used any more then."""
        return self.service.read(lambda: accounts.is_revoked(self.account["id"])).result()

    def _was_revoked(self) -> bool:
        """Read the revocation only where this process, its only writer, may know of one."""
        known = self.account["status"] == "revoked" or self.account["id"] in self.service.upstream.revoked
        return known and self.is_revoked()

    def redact(self, response: Any) -> Any:
        return redact_reply(response, self.tokens or Tokens(""))

    def _run_unsent(self, run: Callable[[], Tokens]) -> Tokens:
        """Run a token step; mark its errors as NOT_SENT, since no part of the post was sent."""
        try:
            return run()
        except ApiError as error:
            if error.rule == "storage.unavailable":
                raise StorageError(error.message) from error
            error.outcome = Outcome.NOT_SENT
            raise

    def _open(self, *, refresh: bool) -> Tokens:
        account, sealed = self.account["id"], self.account["secret"]
        if sealed is None:
            raise rule_error("account.disconnected")
        if refresh and not self.just_seen and self._was_revoked():
            raise rule_error("account.reconnect_required")
        tokens = decrypt(self.service, account, sealed)
        ends = tokens.expires_at_ms
        if refresh and tokens.refresh and ends is not None and ends - EXPIRY_MARGIN_MS < self.service.now_ms:
            tokens = self._refresh(tokens)
        return tokens

    def _refresh(self, stale: Tokens) -> Tokens:
        return refresh_tokens(self.service, self.account["id"], stale)

    def _get_anonymous(self) -> Tokens:
        if not self.platform.has_public_lookup:
            raise rule_error("account.reconnect_required")
        return Tokens("")

    def _with_upstream(self, step: Callable[[Upstream], T], tokens: Tokens, bound: Container[str]) -> T:
        with open_upstream(self.service, self.platform.name, self.account, tokens, bound) as up:
            try:
                return step(up)
            except ApiError as error:
                error.used = digest(tokens)
                raise
