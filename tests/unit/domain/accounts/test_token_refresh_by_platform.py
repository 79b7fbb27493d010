"""Token refresh outcomes per platform, in one table: expiry, refusal, lost responses.

The tests move the clock by hand, and publish and read posts through the API. Tests with killed processes are in
tests/soak/test_token_kills.py.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.accounts import tokens
from tests.support.app_server import AppServer
from tests.support.platforms.rule_drafts import EIGHT
from tests.support.token_accounts import TokenAccount, connect_bluesky_by_oauth

Fate = Literal["published", "account.reconnect_required"]
HOUR, DAY = 3600, 86_400
LIVES: Fate = "published"
TOLD: Fate = "account.reconnect_required"
POINTS = ("tok.after_intent", "tok.after_send", "tok.after_reply", "tok.after_commit")
CUT_OFF = ("tok.after_send", "tok.after_reply")  # the platform has renewed, and nobody here knows its answer


@dataclass(frozen=True)
class Way:
    """What is to be expected of one kind of account; seconds are counted from the connection.

    `ends`: when the access token does. `due`: when it is renewed ahead of time. `expired`: what becomes of a post when
    it has ended. `meanwhile`: of one after the platform has renewed in vain, while the old access token should last;
    `replayed`: of one later, that needs the used refresh token a second time. `need`: when fifty posts need new tokens
    at once; None where posts never do.
    """

    ends: float | None
    due: float | None
    expired: Fate
    meanwhile: Fate = LIVES
    replayed: Fate = LIVES
    need: float | None = None
    for_posts: bool = False  # renewed ahead of time only where a post will want it
    who: dict[str, Any] = field(default_factory=dict)


# From the fact sheets, not from the declarations that these have to agree with.
WAYS = {
    "bluesky": Way(2 * HOUR, 2 * HOUR - 900, LIVES, need=2 * HOUR + 1, for_posts=True),  # two hours of grace
    "bluesky by oauth": Way(3599, 3599 - 900, LIVES, TOLD, TOLD, need=HOUR, for_posts=True),  # renewing ends the old
    # A Page's token has no end; one that was ended has to be given anew by its owner.
    "facebook": Way(None, 7 * DAY, TOLD),
    # Only a token that still works can be renewed.
    "instagram": Way(5_183_944, 7 * DAY, TOLD, need=5_183_944 - 30),
    "threads": Way(5_183_944, 7 * DAY, TOLD, need=5_183_944 - 30),
    # An app that LinkedIn has vetted gets refresh tokens; others are told a week ahead.
    "linkedin": Way(60 * DAY, 53 * DAY, LIVES, need=60 * DAY + 1, who={"vetted": True}),
    "linkedin without refresh tokens": Way(60 * DAY, None, TOLD),
    "pinterest": Way(30 * DAY, 7 * DAY, LIVES, replayed=TOLD, need=30 * DAY + 1),
    "tiktok": Way(2 * HOUR, 2 * HOUR - 900, LIVES, replayed=TOLD, need=2 * HOUR + 1, for_posts=True),
    "twitter": Way(2 * HOUR, 2 * HOUR - 900, LIVES, replayed=TOLD, need=2 * HOUR + 1, for_posts=True),
}
RENEWABLE = [name for name, way in WAYS.items() if way.due is not None]
# Those whose renewals go as they do with another: with that one in the quick tests, all in the slow ones.
ALIKE = ("threads", "pinterest", "twitter")  # as Instagram, as TikTok, as TikTok
AT_THE_LAB = [name for name in RENEWABLE if "oauth" not in name]


@pytest.fixture(scope="module")
def way(request: pytest.FixtureRequest) -> str:
    """Of the module's scope, so that the tests of one kind of account come together: they share a server."""
    return str(request.param)


@pytest.fixture
def holder(
    way: str,
    open_on_lab_clock: Callable[..., AppServer],
    connect_account: Callable[..., TokenAccount],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TokenAccount]:
    if way == "bluesky by oauth":
        yield connect_bluesky_by_oauth(open_on_lab_clock, monkeypatch)
    else:
        yield connect_account(way.partition(" ")[0], **WAYS[way].who)
    fault_injection.plan("")


def each(names: list[str] | None = None) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", names or list(WAYS), indirect=True)


def one_of_each(names: list[str]) -> pytest.MarkDecorator:
    """For what many do or is done many times."""
    ways = [pytest.param(name, marks=pytest.mark.slow) if name in ALIKE else name for name in names]
    return pytest.mark.parametrize("way", ways, indirect=True)


@contextlib.contextmanager
def wanted(holder: TokenAccount, row: Way) -> Iterator[None]:
    """Where tokens are renewed ahead of time for posts only, one that will want them; it is canceled at the end."""
    post = holder.schedule((row.due or 0) + 800) if row.for_posts else None
    yield
    if post:
        assert holder.api.delete(f"/v1/posts/{post}").status_code == 200


def test_no_platform_is_left_out() -> None:
    assert {name.partition(" ")[0] for name in WAYS} == set(EIGHT)  # a later one's renewals are tested beside it


# --- About to expire -------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@each(RENEWABLE)
def test_tokens_about_to_expire_are_renewed_ahead_of_time_once(holder: TokenAccount, way: str) -> None:
    row = WAYS[way]
    assert row.due is not None
    with wanted(holder, row):
        holder.until(row.due - 30)
        assert holder.look() == 0
        holder.until(row.due + 1)
        before = holder.row()
        assert (holder.look(), holder.look()) == (1, 0)
    after = holder.row()
    assert (after["status"], after["renewal_at"], holder.told()) == ("active", None, [])
    assert after["renewed_at"] > before["renewed_at"]
    if row.ends:
        assert after["token_expires_at"] >= before["token_expires_at"] + (row.due - 120) * 1000
        holder.until(row.ends + 1)
    assert (holder.outcome(), holder.renewals()) == (LIVES, 1)


@each([name for name, way in WAYS.items() if way.due is None])
def test_owner_is_warned_once_a_week_before_unrenewable_tokens_end(holder: TokenAccount, way: str) -> None:
    ends = WAYS[way].ends
    assert ends is not None
    holder.until(ends - 7 * DAY - 60)
    holder.look()
    assert (holder.status(), holder.told()) == ("active", [])
    holder.until(ends - 7 * DAY + 1)
    assert (holder.look(), holder.look()) == (0, 0)
    assert (holder.status(), holder.told()) == ("expiring", ["token.expiring"])
    assert holder.outcome() == LIVES


# --- Expired, revoked ------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@each()
def test_expired_access_token_is_renewed_for_a_post_or_reported_once(holder: TokenAccount, way: str) -> None:
    row = WAYS[way]
    if row.ends is None:
        holder.kill()
    else:
        holder.until(row.ends + 1)
    assert holder.outcome() == row.expired
    if row.expired == LIVES:
        assert (holder.renewals(), holder.status(), holder.told()) == (1, "active", [])
    else:
        told_for_good(holder)


@pytest.mark.matrix
@each()
def test_a_permission_that_was_taken_back_is_told_once(holder: TokenAccount, way: str) -> None:
    holder.revoke()
    assert holder.outcome() == TOLD
    told_for_good(holder)


@pytest.mark.matrix
@each(RENEWABLE)
def test_a_permission_that_was_taken_back_is_found_by_a_renewal_too(holder: TokenAccount, way: str) -> None:
    holder.revoke()
    for _ in range(2):
        with pytest.raises(ApiError) as caught:
            holder.renewed()
        assert caught.value.rule == TOLD
    assert (holder.status(), holder.told()) == ("revoked", ["token.revoked"])


def told_for_good(holder: TokenAccount) -> None:
    """The account is revoked, one event says so, and no call is wasted on it any more."""
    assert (holder.status(), holder.told()) == ("revoked", ["token.revoked"])
    calls = len(holder.server.lab.lab.calls)
    assert (holder.outcome(), holder.look()) == (TOLD, 0)
    assert len(holder.server.lab.lab.calls) == calls
    assert holder.told() == ["token.revoked"]


# --- Not answered ----------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@one_of_each(AT_THE_LAB)
@pytest.mark.parametrize("fault", ["reset_before", "status:503", "status:429", "html", "redirect_self"])
def test_bad_weather_ends_no_account(holder: TokenAccount, way: str, fault: str) -> None:
    holder.until(WAYS[way].due or 0)
    holder.server.lab.lab.faults.add([{"fault": fault, "platform": holder.platform}])
    with pytest.raises(ApiError) as caught:
        holder.renewed()
    assert caught.value.code == "platform_unavailable"
    assert (holder.status(), holder.told()) == ("active", [])
    holder.server.lab.lab.faults.clear()
    holder.renewed()
    assert (holder.status(), holder.told()) == ("active", [])


@pytest.mark.matrix
@each(RENEWABLE)
def test_lost_response_costs_nothing_while_the_access_token_lives(holder: TokenAccount, way: str) -> None:
    row = WAYS[way]
    assert row.due is not None
    with wanted(holder, row):
        holder.until(row.due + 1)
        holder.lose("reset_after")
        if row.replayed == LIVES:
            assert (holder.look(), holder.row()["renewal_at"]) == (2, None)
        else:
            assert (holder.look(), holder.look()) == (1, 0)
            assert holder.row()["renewal_at"] is not None
    asked = holder.renewals()
    if row.meanwhile == LIVES:
        assert (holder.outcome(), holder.renewals(), holder.told()) == (LIVES, asked, [])
    ended(holder, row)


@each([name for name in AT_THE_LAB if WAYS[name].replayed == TOLD])
def test_undelivered_renewal_is_repeated_after_the_access_token_ends(holder: TokenAccount, way: str) -> None:
    row = WAYS[way]
    assert row.due is not None
    assert row.ends is not None
    holder.until(row.due + 1)
    holder.lose("reset_before")
    with pytest.raises(ApiError):
        holder.renewed()
    assert (holder.outcome(), holder.renewals()) == (LIVES, 1)
    holder.until(row.ends + 1)
    assert (holder.outcome(), holder.renewals(), holder.told()) == (LIVES, 2, [])


def ended(holder: TokenAccount, row: Way) -> None:
    """When the old access token has ended: posts go out, or it is told that they cannot."""
    if row.meanwhile == LIVES:
        holder.until((row.ends or row.due or 0) + 1)
    fate = holder.outcome()
    assert fate == row.replayed
    if fate == LIVES:
        assert (holder.status(), holder.told()) == ("active", [])
    else:
        told_for_good(holder)


# --- Killed ----------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@one_of_each(RENEWABLE)
@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_dies_while_it_renews_breaks_no_account_in_silence(
    holder: TokenAccount, way: str, point: str
) -> None:
    row = WAYS[way]
    assert row.due is not None
    holder.until(row.due + 1)
    fault_injection.plan(f"{point}=raise")
    with pytest.raises(fault_injection.InjectedFaultError):
        holder.renewed()
    fault_injection.plan("")
    holder.crash()
    assert (holder.row()["renewal_at"] is None) == (point == "tok.after_commit")
    if point not in CUT_OFF or row.meanwhile == LIVES:
        assert (holder.outcome(), holder.told()) == (LIVES, [])
    if point in CUT_OFF:
        holder.look()
        ended(holder, row)
        return
    if row.expired == LIVES and row.ends is not None:
        holder.until(row.ends + 1)
        assert holder.outcome() == LIVES
    elif point == "tok.after_intent":
        assert holder.look() == 1
    assert (holder.status(), holder.row()["renewal_at"], holder.told()) == ("active", None, [])


# --- Not written -----------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@each(RENEWABLE)
def test_unwritable_new_tokens_are_used_and_written_later(
    holder: TokenAccount, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = WAYS[way]
    assert row.due is not None
    holder.until(row.due + 1)
    before = holder.row()["secret"]
    with monkeypatch.context() as full:
        full.setattr(tokens, "build_columns", no_space)
        fresh = holder.renewed()
        assert holder.row()["secret"] == before
        assert tokens.save_unsaved(holder.server.service) == 1
        assert holder.renewed() == fresh
    assert tokens.save_unsaved(holder.server.service) == 0
    holder.crash()
    assert holder.held() == fresh
    holder.until((row.ends or row.due) + 1)
    assert (holder.outcome(), holder.renewals(), holder.told()) == (LIVES, 1, [])


def no_space(*_: Any) -> None:
    raise rule_error("storage.unavailable")


# --- Many at once ----------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@one_of_each(RENEWABLE)
def test_fifty_renewals_at_once_ask_once(holder: TokenAccount, way: str) -> None:
    holder.until(WAYS[way].due or 0)
    stale = holder.held()
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        found = set(pool.map(lambda _: repr(holder.renewed(stale)), range(50)))
    assert len(found) == 1
    assert holder.renewals() == 1


@pytest.mark.matrix
@one_of_each([name for name, way in WAYS.items() if way.need])
def test_posts_that_need_new_tokens_at_once_make_one_call(holder: TokenAccount, way: str) -> None:
    holder.until(WAYS[way].need or 0)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = [row for rows in pool.map(holder.publish, (5, 5)) for row in rows]
    assert [row["status"] for row in rows] == ["published"] * 10
    assert (holder.renewals(), holder.told()) == (1, [])


@each([name for name, way in WAYS.items() if not way.need])
def test_posts_of_an_account_without_post_renewal_make_no_call(holder: TokenAccount, way: str) -> None:
    holder.kill()
    rows = holder.publish(5) + holder.publish(5)
    assert {row["status"] for row in rows} == {"rejected"}
    assert (holder.renewals(), holder.told()) == (0, ["token.revoked"])
