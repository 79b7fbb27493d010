"""One run's calls to its platform: the connector's functions over a fresh line, with tokens that are kept fresh."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, TypeVar

from socialpub import platforms
from socialpub.base.errors import ApiError, Outcome, refuse
from socialpub.domain.accounts import accounts
from socialpub.domain.accounts.tokens import MARGIN_MS, digest_of, open_tokens, open_upstream, renewed, scrub
from socialpub.domain.core.service import Service
from socialpub.platforms.contract import Connector, Platform, Tokens, Upstream
from socialpub.store.rows import AccountRow

T = TypeVar("T")


class StorageError(Exception):
    """Something could not be written; the post is taken up again when its lease has run out."""


@dataclass
class Caller:
    """Who calls for one account. Tokens are opened by the first call."""

    service: Service
    account: AccountRow
    just_seen: bool = False  # the account, by the transaction that wrote down what is about to be sent
    tokens: Tokens | None = None

    @property
    def platform(self) -> Platform:
        return platforms.platform(self.account["platform"])

    @property
    def site(self) -> Any:
        return self.service.sites[self.account["platform"]]

    @property
    def connector(self) -> Connector:
        """ApiError `platform_not_enabled` when this server does not publish to the platform."""
        accounts.enabled(self.service, self.platform)
        return platforms.CONNECTORS[self.platform.name]

    def call(self, step: Callable[[Upstream], T], *, looking: bool = False, bound: Container[str] = frozenset()) -> T:
        """One connector function over a fresh line; an expired access token is refreshed once, and the step repeated.

        `looking`: goes on with a token that cannot be refreshed; for a revoked account without one, where the platform
        lets anybody look.
        """
        if looking and self.is_revoked():
            return self._with_upstream(step, self._unsent(self._nobodys), bound)
        if self.tokens is None:
            self.tokens = self._unsent(lambda: self._open(refresh=not looking))
        tokens = self.tokens
        try:
            return self._with_upstream(step, tokens, bound)
        except ApiError as error:
            if not error.stale_token or not tokens.refresh:
                raise
        self.tokens = self._unsent(lambda: self._renewed(tokens))
        return self._with_upstream(step, self.tokens, bound)

    def is_revoked(self) -> bool:
        """Whether the account's authorization is over by now: its platform is not called with it any more."""
        return self.service.read(lambda: accounts.is_revoked(self.account["id"])).result()

    def _was_revoked(self) -> bool:
        """The same, and read only where the row or this process knows of an end: nobody else writes one."""
        known = self.account["status"] == "revoked" or self.account["id"] in self.service.revoked
        return known and self.is_revoked()

    def scrubbed(self, response: Any) -> Any:
        return scrub(response, self.tokens or Tokens(""))

    def _unsent(self, run: Callable[[], Tokens]) -> Tokens:
        """Whatever happens while getting tokens, nothing of the post was sent by it."""
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
            raise refuse("account.disconnected")
        if refresh and not self.just_seen and self._was_revoked():
            raise refuse("account.reconnect_required")
        tokens = self.service.opened.get(account, sealed, lambda: open_tokens(self.service, account, sealed))
        ends = tokens.expires_at_ms
        if refresh and tokens.refresh and ends is not None and ends - MARGIN_MS < self.service.now_ms:
            tokens = self._renewed(tokens)
        return tokens

    def _renewed(self, stale: Tokens) -> Tokens:
        return renewed(self.service, self.account["id"], stale)

    def _nobodys(self) -> Tokens:
        if not self.platform.shows_anybody:
            raise refuse("account.reconnect_required")
        return Tokens("")

    def _with_upstream(self, step: Callable[[Upstream], T], tokens: Tokens, bound: Container[str]) -> T:
        account = accounts.who(self.account)
        with open_upstream(self.service, self.platform.name, account, tokens, bound) as up:
            try:
                return step(up)
            except ApiError as error:
                error.used = digest_of(tokens)
                raise
