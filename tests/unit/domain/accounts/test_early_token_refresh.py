"""Token refresh ahead of expiry, retry intervals, and expiry warnings to the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.accounts import accounts, token_refresh, tokens
from socialpub.domain.context.app_context import close_context
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.platforms.contract import RefreshPolicy as Row
from socialpub.store.schema.models import Account
from tests.support.inline_executor import InlineExecutor
from tests.support.token_service import DAY_MS, HOURS, NAME, TokenService, open_token_service

Make = Callable[..., TokenService]
MONTHS = Row(refresh_before=30 * 86_400, keep_alive=7 * 86_400)
LOST = ApiError("platform_unavailable", "its answer was lost", outcome=Outcome.AMBIGUOUS)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[TokenService] = []

    def home(*args: Any, **manners: Any) -> TokenService:
        made.append(open_token_service(tmp_path, monkeypatch, *args, **manners))
        made[-1].service.executors.immediate = InlineExecutor()  # type: ignore[assignment]
        return made[-1]

    yield home
    fault_injection.plan("")
    for one in made:
        close_context(one.service)


def look(home: TokenService) -> int:
    """One look; how many calls it made."""
    before = home.calls
    token_refresh.TokenRefresher(home.service).run()
    return home.calls - before


# --- When ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "post_in", "calls"),
    [(901, 60, 0), (900, 60, 1), (900, 899, 1), (900, 901, 0), (900, None, 0), (0, 60, 1), (-3600, 60, 1)],
)
def test_tokens_of_hours_are_renewed_for_posts_that_will_want_them(
    make: Make, left: int, post_in: int | None, calls: int
) -> None:
    home = make(HOURS)
    home.skip(7200 - left)
    if post_in is not None:
        home.post_due(post_in)
    assert look(home) == calls


def test_tokens_of_minutes_are_renewed_in_the_second_half_of_their_life(make: Make) -> None:
    home = make(HOURS, access_seconds=600)
    home.post_due(899)
    asked = []
    for _ in range(14):
        asked.append(look(home))
        home.skip(60)
    assert asked == [0] * 5 + [1] + [0] * 4 + [1] + [0] * 3


@pytest.mark.parametrize(("days", "calls"), [(6.99, 0), (7, 1)])
def test_tokens_that_die_unused_are_renewed_now_and_then(make: Make, days: float, calls: int) -> None:
    home = make(MONTHS, access_seconds=60 * 86_400)
    home.skip(days * 86_400)
    assert look(home) == calls


@pytest.mark.parametrize(("days", "calls"), [(29.9, 0), (30, 1)])
def test_tokens_of_months_are_renewed_before_their_end_without_any_post(make: Make, days: float, calls: int) -> None:
    home = make(replace(MONTHS, keep_alive=None), access_seconds=60 * 86_400)
    home.skip(days * 86_400)
    assert look(home) == calls


def test_a_renewed_token_is_not_renewed_again(make: Make) -> None:
    home = make(MONTHS, access_seconds=60 * 86_400)
    home.skip(8 * 86_400)
    assert [look(home), look(home)] == [1, 0]
    assert home.is_alive()


@pytest.mark.parametrize("change", ["revoked", "disconnected", "unrenewable", "without a refresh token"])
def test_what_cannot_be_renewed_is_left_alone(make: Make, change: str) -> None:
    row = replace(MONTHS, renewable=False) if change == "unrenewable" else MONTHS
    home = make(row, refreshing="none" if change == "without a refresh token" else "rotating")
    if change == "revoked":
        home.service.write(lambda tx: tokens.mark_revoked(home.service, tx, home.account, "gone")).result()
    if change == "disconnected":
        columns = {"secret": None, "disconnected_at": 1}
        home.service.write(lambda tx: Account.update(**columns).execute()).result()
    home.skip(1800)
    home.post_due(60)
    assert look(home) == 0


def test_strict_platform_is_retried_only_after_the_access_token_ends(make: Make) -> None:
    home = make(HOURS, refreshing="fatal")
    home.skip(7200 - 600)
    home.post_due(60)
    home.upstream.wire.planned = [LOST]
    assert look(home) == 1
    assert look(home) == 0
    assert home.is_alive()
    home.skip(541)
    assert look(home) == 1
    assert home.is_alive()


def test_failures_are_not_repeated_at_once_and_the_waits_grow(make: Make) -> None:
    home = make(replace(HOURS, rotates=False))
    home.skip(7200)
    home.post_due(60)
    upkeep = token_refresh.TokenRefresher(home.service)
    asked = []
    for _ in range(10):
        home.upstream.wire.planned = [LOST, LOST]
        before = home.calls
        upkeep.run()
        asked.append(home.calls - before)
        home.skip(60)
    assert asked == [2, 2, 0, 2, 0, 0, 0, 2, 0, 0]
    assert home.events() == []


def test_accounts_that_wait_after_a_failure_keep_no_other_from_its_turn(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_refresh, "CONCURRENT_REFRESHES", 1)
    home = make(HOURS)
    row, later = home.row(), home.issue()
    bob, _ = home.service.write(
        lambda tx: accounts.connect(
            home.service, tx, row["organization"], row["profile"], NAME, AccountIdentity("bob"), later
        )
    ).result()
    home.skip(7200)
    home.post_due(60)
    home.account = bob["id"]
    home.post_due(60)
    upkeep = token_refresh.TokenRefresher(home.service)
    home.upstream.wire.planned = [LOST]
    upkeep.run()
    assert not home.is_alive()
    upkeep.run()
    assert home.is_alive()


def test_a_refused_account_is_asked_once_and_never_again(make: Make) -> None:
    home = make(HOURS)
    home.upstream.server.end_tokens(None, access=True, refresh=True)
    home.skip(7200)
    home.post_due(60)
    assert [look(home), look(home)] == [1, 0]
    assert [type_ for type_, _ in home.events()] == ["token.revoked"]


def test_what_could_not_be_written_is_written_by_the_next_look(make: Make) -> None:
    home = make(HOURS)
    home.skip(7200)
    home.post_due(60)
    fault_injection.plan("db.commit=enospc@2")
    assert look(home) == 1
    fault_injection.plan("")
    assert not home.is_alive()
    assert look(home) == 0
    assert home.is_alive()


def test_a_bug_in_one_renewal_does_not_stop_the_others(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make(HOURS)
    home.skip(7200)
    home.post_due(60)
    upkeep = token_refresh.TokenRefresher(home.service)
    fault_injection.plan("tok.after_intent=raise")
    upkeep.run()
    fault_injection.plan("")
    home.skip(61)
    upkeep.run()
    assert home.is_alive()


# --- The warning -----------------------------------------------------------------------------------------------------


def lasting(home: TokenService, days: float, refresh: str | None = None, **private: Any) -> Tokens:
    return Tokens("an-access-token", refresh, home.clock.ms + int(days * DAY_MS), private)


def test_owner_only_renewal_is_warned_of_once_seven_days_ahead(make: Make) -> None:
    home = make(MONTHS)
    home.connect(lasting(home, 60))
    ends = home.row()["ends_at"]
    home.skip(53 * 86_400 - 1)
    look(home)
    assert (home.row()["status"], home.events()) == ("active", [])
    home.skip(1)
    look(home)
    look(home)
    assert home.row()["status"] == "expiring"
    assert home.events() == [
        (
            "token.expiring",
            {
                "accountId": home.account,
                "platform": "twitter",
                "profileId": home.row()["profile"],
                "platformAccountId": "alice",
                "displayName": "Alice",
                "expiresAt": "2027-01-19T12:00:00.000Z",
                "daysUntilExpiry": 7,
            },
        )
    ]
    assert ends == home.clock.ms + 7 * DAY_MS


def test_a_new_consent_ends_the_warning_and_may_be_warned_of_again(make: Make) -> None:
    home = make(MONTHS)
    for _ in range(2):
        home.connect(lasting(home, 5))
        assert home.row()["status"] == "active"
        look(home)
        assert home.row()["status"] == "expiring"
    assert [type_ for type_, _ in home.events()] == ["token.expiring"] * 2


def test_a_token_that_renews_itself_is_never_warned_of(make: Make) -> None:
    home = make(replace(MONTHS, refresh_before=60, keep_alive=None))
    home.connect(lasting(home, 2, refresh="a-refresh-token"))
    look(home)
    assert home.events() == []


def test_where_renewals_have_an_end_of_their_own_that_is_warned_of_once(make: Make) -> None:
    """LinkedIn's refresh tokens live a year from the consent, however often they are used."""
    home = make(replace(MONTHS, keep_alive=86_400), refreshing="same")
    first = home.issue()
    home.connect(replace(first, private={"refreshExpiresAtMs": home.clock.ms + 6 * DAY_MS}))
    look(home)
    home.skip(86_400)
    assert look(home) == 1
    assert home.row()["status"] == "expiring"
    assert [type_ for type_, _ in home.events()] == ["token.expiring"]


def test_an_authorization_that_has_ended_is_revoked_without_a_call(make: Make) -> None:
    home = make(MONTHS)
    home.connect(lasting(home, 60))
    home.skip(60 * 86_400)
    assert look(home) == 0
    assert home.row()["status"] == "revoked"
    ((type_, data),) = home.events()
    assert (type_, data["reason"]) == ("token.revoked", "The authorization has expired.")
