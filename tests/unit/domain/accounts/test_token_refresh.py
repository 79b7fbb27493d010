"""Token refresh: single flight, crash safety, stored tokens, revocation on refusal only."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UnreadReason, UpstreamResponse
from socialpub.base.json_codec import dumps
from socialpub.domain.access import actions
from socialpub.domain.access.actor import build_operator
from socialpub.domain.accounts import tokens
from socialpub.domain.background import recovery
from socialpub.domain.context.app_context import close_context
from socialpub.domain.operations import key_rotation
from socialpub.platforms.contract import RefreshPolicy
from socialpub.store.schema.models import Account, Instance
from tests.support.oauth_server import SentRequest
from tests.support.token_service import NAME, TokenService, open_token_service

LOST = ApiError("platform_unavailable", "its answer was lost", outcome=Outcome.AMBIGUOUS)
UNSENT = ApiError("platform_unavailable", "could not be reached", outcome=Outcome.NOT_SENT)
JSON_TYPE = {"Content-Type": "application/json"}
GRACEFUL = RefreshPolicy(refresh_before=900)
Make = Callable[..., TokenService]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[TokenService] = []

    def home(*args: Any, **manners: Any) -> TokenService:
        made.append(open_token_service(tmp_path, monkeypatch, *args, **manners))
        return made[-1]

    yield home
    fault_injection.plan("")
    for one in made:
        close_context(one.service)


def refused(home: TokenService) -> ApiError:
    with pytest.raises(ApiError) as caught:
        home.renewed()
    return caught.value


def executed_but_lost(home: TokenService) -> None:
    """The next call is executed by the platform, and its answer never comes."""
    real = home.upstream.wire.request

    def once(method: str, url: str, **kinds: Any) -> UpstreamResponse:
        home.upstream.wire.request = real  # type: ignore[method-assign]
        real(method, url, **kinds)
        raise LOST

    home.upstream.wire.request = once  # type: ignore[method-assign]


# --- Well ------------------------------------------------------------------------------------------------------------


def test_new_tokens_replace_the_old_ones_in_the_row(make: Make) -> None:
    home = make()
    old = home.held()
    home.skip(7200)
    fresh = home.renewed()
    assert home.held() == fresh != old
    assert home.is_alive()
    row = home.row()
    assert (row["token_expires_at"], row["renewed_at"]) == (home.clock.ms + 7_200_000, home.clock.ms)
    assert (row["renewal_at"], row["status"], row["ends_at"]) == (None, "active", None)


def test_fifty_at_once_make_one_call(make: Make) -> None:
    home = make()
    stale = home.held()
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: home.renewed(stale), range(50)))
    assert home.calls == 1
    assert set(map(repr, found)) == {repr(home.held())}


def test_caller_with_stale_tokens_gets_the_new_ones_without_a_call(make: Make) -> None:
    home = make()
    stale = home.held()
    fresh = home.renewed()
    assert home.renewed(stale) == fresh
    assert home.calls == 1


# --- Refused ---------------------------------------------------------------------------------------------------------


def test_a_refusal_ends_the_account_once_and_says_so(make: Make) -> None:
    home = make()
    home.upstream.server.end_tokens("alice", access=True, refresh=True)
    error = refused(home)
    assert (error.code, error.rule) == ("platform_auth_failed", "account.reconnect_required")
    assert home.row()["status"] == "revoked"
    refused(home)
    ((type_, data),) = home.events()
    assert type_ == "token.revoked"
    assert data["accountId"] == home.account
    assert data["platformAccountId"] == "alice"
    assert "refresh token is invalid" in data["reason"]
    assert data["revokedAt"].endswith("Z")


def test_a_fault_of_the_operators_app_ends_no_account(make: Make) -> None:
    home = make()
    home.upstream.server.client_secret = "another"
    error = refused(home)
    assert error.code == "platform_not_enabled"
    assert (home.row()["status"], home.row()["renewal_at"]) == ("active", None)
    assert home.events() == []


@pytest.mark.parametrize("failure", [LOST, UNSENT])
def test_a_network_failure_ends_no_account_and_the_next_try_succeeds(make: Make, failure: ApiError) -> None:
    home = make(GRACEFUL)
    home.upstream.wire.planned = [failure, failure]
    assert refused(home) is failure
    assert home.row()["status"] == "active"
    assert home.events() == []
    home.upstream.wire.planned = []
    home.renewed()
    assert home.is_alive()


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_an_overloaded_platform_ends_no_account(make: Make, status: int) -> None:
    home = make()
    home.upstream.wire.planned = [UpstreamResponse(status, {}, b"<html>")]
    assert refused(home).code == "platform_unavailable"
    assert home.row()["status"] == "active"


# --- Lost ------------------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_asked_for_again_where_that_is_harmless(make: Make) -> None:
    home = make(GRACEFUL, refreshing="same")
    executed_but_lost(home)
    home.renewed()
    assert home.calls == 2
    assert home.is_alive()
    assert home.row()["renewal_at"] is None


def executed_but_unread(home: TokenService, unread: UnreadReason) -> None:
    """The next call is executed by the platform, and of its answer only the status and the headers arrive."""
    real = home.upstream.wire.request

    def once(method: str, url: str, **kinds: Any) -> UpstreamResponse:
        home.upstream.wire.request = real  # type: ignore[method-assign]
        found = real(method, url, **kinds)
        return UpstreamResponse(found.status_code, found.headers, unread=unread)

    home.upstream.wire.request = once  # type: ignore[method-assign]


@pytest.mark.parametrize("unread", UnreadReason)
def test_unread_tokens_are_requested_again_where_harmless(make: Make, unread: UnreadReason) -> None:
    home = make(GRACEFUL, refreshing="same")
    executed_but_unread(home, unread)
    home.renewed()
    assert (home.calls, home.is_alive(), home.row()["renewal_at"]) == (2, True, None)


@pytest.mark.parametrize("unread", UnreadReason)
def test_unread_tokens_that_may_be_used_up_are_not_requested_again(make: Make, unread: UnreadReason) -> None:
    home = make(refreshing="fatal")
    before = home.held()
    executed_but_unread(home, unread)
    assert refused(home).outcome is Outcome.AMBIGUOUS
    assert (home.calls, home.held(), home.row()["status"]) == (1, before, "active")
    assert home.row()["renewal_at"] is not None


def test_renewal_that_may_end_the_session_is_not_repeated_and_is_recorded(make: Make) -> None:
    home = make(refreshing="fatal")
    before = home.held()
    executed_but_lost(home)
    assert refused(home).outcome is Outcome.AMBIGUOUS
    assert home.calls == 1
    assert home.held() == before
    assert home.row()["renewal_at"] == home.clock.ms
    assert home.is_alive()


def test_a_call_that_was_never_sent_leaves_no_mark(make: Make) -> None:
    home = make(refreshing="fatal")
    home.upstream.wire.planned = [UNSENT]
    refused(home)
    assert home.row()["renewal_at"] is None


def test_a_call_that_was_never_sent_does_not_wipe_out_an_older_mark(make: Make) -> None:
    home = make(refreshing="fatal")
    executed_but_lost(home)
    refused(home)
    marked = home.row()["renewal_at"]
    home.skip(60)
    home.upstream.wire.planned = [UNSENT]
    refused(home)
    assert home.row()["renewal_at"] == marked


@pytest.mark.parametrize("point", ["tok.after_intent", "tok.after_send", "tok.after_reply", "tok.after_commit"])
def test_a_crash_in_any_step_costs_a_graceful_platform_nothing(make: Make, point: str) -> None:
    home = make(GRACEFUL, refreshing="same")
    stale = home.held()
    fault_injection.plan(f"{point}=raise")
    with pytest.raises(fault_injection.InjectedFaultError):
        home.renewed()
    fault_injection.plan("")
    home.crash()
    home.renewed(stale)
    assert home.is_alive()
    assert home.events() == []


@pytest.mark.parametrize(
    ("point", "survives"), [("tok.after_intent", True), ("tok.after_reply", False), ("tok.after_commit", True)]
)
def test_crash_costs_a_strict_platform_at_most_one_reconnection(make: Make, point: str, survives: bool) -> None:
    home = make(refreshing="fatal")
    stale = home.held()
    fault_injection.plan(f"{point}=raise")
    with pytest.raises(fault_injection.InjectedFaultError):
        home.renewed()
    fault_injection.plan("")
    home.crash()
    if survives:
        home.renewed(stale)
        assert home.is_alive()
    else:
        assert refused(home).rule == "account.reconnect_required"
    assert [type_ for type_, _ in home.events()] == ([] if survives else ["token.revoked"])


# --- Not written -----------------------------------------------------------------------------------------------------


def test_unwritable_tokens_are_kept_and_written_later_without_a_call(make: Make) -> None:
    home = make(refreshing="fatal")
    stale = home.held()
    fault_injection.plan("db.commit=enospc@2-3")  # the first commit is the intent
    fresh = home.renewed()
    assert home.held() == stale
    assert tokens.save_unsaved(home.service) == 1
    assert home.renewed(stale) == fresh
    fault_injection.plan("")
    assert tokens.save_unsaved(home.service) == 0
    assert home.held() == fresh
    assert home.calls == 1
    assert home.is_alive()


def test_tokens_renewed_before_they_were_written_are_replaced_in_the_row(make: Make) -> None:
    home = make(refreshing="fatal")
    fault_injection.plan("db.commit=enospc@2")
    unwritten = home.renewed()
    fault_injection.plan("")
    fresh = home.renewed(unwritten)
    assert home.held() == fresh != unwritten
    assert home.is_alive()


def test_writing_pending_tokens_does_not_wait_for_a_renewal_in_progress(make: Make) -> None:
    home = make(refreshing="fatal")
    fault_injection.plan("db.commit=enospc@2")
    home.renewed()
    fault_injection.plan("")
    with concurrent.futures.ThreadPoolExecutor(1) as pool, home.service.upstream.renewals[home.account].lock:
        saving = pool.submit(tokens.save_unsaved, home.service)
        done, _ = concurrent.futures.wait([saving], timeout=5)
    assert done == {saving}
    assert tokens.save_unsaved(home.service) == 0
    assert home.is_alive()


def test_without_a_place_to_write_the_intent_nothing_is_sent(make: Make) -> None:
    home = make()
    fault_injection.plan("db.commit=enospc")
    assert refused(home).rule == "storage.unavailable"
    assert home.calls == 0


ENDS: dict[str, Callable[[UpstreamResponse], UpstreamResponse]] = {  # of a refresh, by what the platform has answered
    "renewed": lambda answer: answer,
    "refused": lambda _: UpstreamResponse(400, JSON_TYPE, b'{"error": "invalid_grant"}'),
    "refused without a reason": lambda _: UpstreamResponse(400, JSON_TYPE, b'{"error": "invalid_request"}'),
    "forbidden": lambda _: UpstreamResponse(403, JSON_TYPE, b'{"error": "access_denied"}'),
    "overloaded": lambda _: UpstreamResponse(503),
    "unread": lambda answer: UpstreamResponse(answer.status_code, answer.headers, unread=UnreadReason.BROKEN),
}


def write_during_the_call(home: TokenService, end: str, write: Callable[[], object]) -> list[dict[str, Any]]:
    """The refresh ends so, after a write while it was under way; the row as the write has left it."""
    real, rows = home.upstream.wire.request, list[dict[str, Any]]()

    def slow(method: str, url: str, **kinds: Any) -> UpstreamResponse:
        answer = real(method, url, **kinds)
        write()
        rows.append(home.row())
        return ENDS[end](answer)

    home.upstream.wire.request = slow  # type: ignore[method-assign]
    return rows


@pytest.mark.parametrize("end", ENDS)
def test_a_new_consent_during_a_refresh_counts_whatever_its_end(make: Make, end: str) -> None:
    home = make()
    stale, later = home.held(), home.issue()
    rows = write_during_the_call(home, end, lambda: home.connect(later))
    assert home.renewed(stale) == later
    assert rows == [home.row()]
    assert home.events() == []


@pytest.mark.parametrize("end", ENDS)
def test_an_account_disconnected_during_a_refresh_stays_so(make: Make, end: str) -> None:
    home = make()
    rows = write_during_the_call(home, end, home.disconnect)
    assert refused(home).rule == "account.disconnected"
    assert rows == [home.row()]
    assert home.events() == []


def test_a_disconnected_account_is_not_renewed(make: Make) -> None:
    home = make()
    stale = home.held()
    home.service.write(lambda tx: Account.update(secret=None).execute()).result()
    with pytest.raises(ApiError) as caught:
        home.renewed(stale)
    assert caught.value.rule == "account.disconnected"
    assert home.calls == 0


def test_a_restored_copy_does_not_use_up_the_originals_refresh_token(make: Make) -> None:
    home = make(refreshing="fatal")
    home.service.write(lambda tx: Instance.update(paused="restored").execute()).result()
    assert refused(home).code == "platform_unavailable"
    assert home.calls == 0
    assert home.row()["status"] == "active"


# --- Another process -------------------------------------------------------------------------------------------------


class Watched(threading.Event):
    """The end of a process; `asked` once somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.set()
        return super().wait(timeout)


def claim(home: TokenService, seconds: float) -> Watched:
    """Another process renews the account's tokens, for so long at most; tells when this one waits for it."""
    claimed = Account.update(renewing="another", renewing_until=home.clock.ms + int(seconds * 1000))
    home.service.write(lambda tx: claimed.execute()).result()
    home.service.process.stopping = watched = Watched()
    return watched


def test_while_another_process_renews_fifty_wait_and_take_its_tokens(make: Make) -> None:
    home = make(refreshing="fatal")
    stale, before = home.held(), home.row()
    watched = claim(home, 60)
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        found = [pool.submit(home.renewed, stale) for _ in range(50)]
        assert watched.asked.wait(60)
        fresh = home.issue()
        stored = tokens.build_columns(home.service, home.account, NAME, fresh, before)
        home.service.write(lambda tx: Account.update(**stored).execute()).result()
        assert [each.result(60) for each in found] == [fresh] * 50
    assert home.calls == 0


def test_a_process_that_died_while_it_renewed_is_not_waited_for_for_ever(make: Make) -> None:
    home = make(refreshing="fatal")
    stale, watched = home.held(), claim(home, 60)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(home.renewed, stale)
        assert watched.asked.wait(60)
        assert home.calls == 0
        home.skip(60)
        assert found.result(60) == home.held()
    assert home.is_alive()
    assert (home.calls, home.row()["renewing"]) == (1, None)


def test_a_claim_from_before_the_clock_was_set_back_keeps_nobody(make: Make) -> None:
    home = make(refreshing="fatal")
    claim(home, tokens.CLAIM_MS / 1000 + 1)
    home.renewed()
    assert home.is_alive()


def test_who_waits_for_another_process_goes_when_this_one_ends(make: Make) -> None:
    home = make(refreshing="fatal")
    watched = claim(home, 60)
    watched.set()
    error = refused(home)
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.NOT_SENT)
    assert home.calls == 0


@pytest.mark.parametrize("planned", [None, UpstreamResponse(503, {}, b"")])
def test_a_renewal_that_has_ended_is_claimed_no_more(make: Make, planned: UpstreamResponse | None) -> None:
    home = make(refreshing="fatal")
    if planned:
        home.upstream.wire.planned = [planned]
        refused(home)
    else:
        home.renewed()
    assert (home.row()["renewing"], home.row()["renewing_until"]) == (None, None)


def test_a_start_frees_what_the_run_before_had_claimed(make: Make) -> None:
    home = make(refreshing="fatal")
    claim(home, 60)
    recovery.recover(home.service)
    home.renewed()
    assert home.is_alive()


def test_a_rotation_of_the_master_key_meanwhile_loses_no_new_tokens(make: Make) -> None:
    """The row's tokens are sealed anew while the platform is asked: they are still the ones that were renewed."""
    home = make(refreshing="fatal")
    before, real = home.row()["secret"], home.upstream.wire.request

    def once(method: str, url: str, **kinds: Any) -> UpstreamResponse:
        home.upstream.wire.request = real  # type: ignore[method-assign]
        reply = real(method, url, **kinds)
        actions.perform_sync(build_operator(home.service, "test"), key_rotation.start)
        assert key_rotation.reencrypt_all(home.service, lambda done, total: None).needed == []
        return reply

    home.upstream.wire.request = once  # type: ignore[method-assign]
    assert home.renewed() == home.held()
    assert home.is_alive()
    assert home.row()["secret"][3:11] == home.service.runtime.vault.key_id != before[3:11]


# --- Sealed ----------------------------------------------------------------------------------------------------------


def test_a_secret_opens_in_its_own_row_only(make: Make) -> None:
    home = make()
    sealed = home.row()["secret"]
    with pytest.raises(ApiError) as caught:
        tokens.decrypt(home.service, "another-account", sealed)
    assert caught.value.rule == "account.reconnect_required"


def test_no_token_stands_in_the_database_the_log_an_event_or_an_error(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    home = make(refreshing="fatal")
    seen = [home.held()]
    seen.append(home.renewed())
    home.upstream.server.end_tokens(None, access=True, refresh=True)
    echo = {"error": "invalid_grant", "error_description": f"{seen[1].refresh} of {seen[1].access} is dead"}
    home.upstream.wire.planned = [UpstreamResponse(400, {}, json.dumps(echo).encode())]
    error = refused(home)
    assert "[hidden]" in str(error.platform_response)
    database = b"".join(path.read_bytes() for path in tmp_path.glob("socialpub.db*"))
    ((type_, data),) = home.events()
    assert type_ == "token.revoked"
    assert dumps(data).encode() in database
    told = f"{error} {error.platform_response} {home.events()} {caplog.text} {database!r}"
    for one in seen:
        assert one.access not in told
        assert str(one.refresh) not in told


def test_what_is_sent_is_the_refresh_token_and_the_apps_own_credentials(make: Make) -> None:
    home = make()
    held = home.held()
    home.renewed()
    (sent,) = home.upstream.wire.sent
    form = {"grant_type": "refresh_token", "refresh_token": held.refresh or ""}
    client = {"client_id": "simulator-app", "client_secret": "simulator-app-secret"}
    assert sent == SentRequest("POST", "https://auth.example/token", {"Accept": "application/json"}, form | client)


def test_a_renewal_leaves_one_line_and_no_token(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "socialpub.tokens")
    home = make()
    fresh = home.renewed()
    (said,) = (line for line in caplog.messages if "refreshed" in line)
    assert re.fullmatch(rf"account {home.account}, \w+: its tokens were refreshed, \d+ ms", said)
    assert fresh.access not in caplog.text
    home.upstream.server.end_tokens(None, access=True, refresh=True)
    with pytest.raises(ApiError):
        home.renewed()
    assert any(" its tokens were not refreshed, " in line for line in caplog.messages)
    assert any(
        line.endswith("its access has expired or was revoked; its owner has to reconnect it")
        for line in caplog.messages
    )
