"""Bounds of what a platform returns, where results are built."""

from __future__ import annotations

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import format_iso
from socialpub.platforms import CONNECTORS
from socialpub.platforms.contract import AccountIdentity, Board, OfferedAccount, Published, Tokens, bounds
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import to_address, to_count, to_id
from socialpub.platforms.meta.graph import get_wait_seconds

LONG = "9" * 20_000


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Zoë 👩‍👩‍👧 & Sons", "Zoë 👩‍👩‍👧 & Sons"),
        ("two\r\nlines\tand a tab", "two  lines and a tab"),
        ("\u202eeman\u202c \u2066x\u2069\u200f", "eman   x"),
        ("half \ud800 of a pair", "half   of a pair"),
        ("\x00\n ", None),
        ("n" * 641, "n" * 640),
    ],
)
def test_a_name_is_one_line_of_bounded_length(name: str, shown: str | None) -> None:
    assert AccountIdentity("1", name).display_name == shown
    assert Board("1", name, "PUBLIC").name == (shown or "")


def test_a_fact_that_does_not_fit_is_left_out() -> None:
    extra = {"a": "shop", "b": LONG, "c": {"d": LONG}, "e": None, "f": ["x", LONG, 1], "g": "a\nb"}
    kept = {"a": "shop", "b": None, "c": None, "e": None, "f": ["x"], "g": "a b"}
    identity = AccountIdentity("1", None, extra)
    assert identity.extra == kept
    assert OfferedAccount(identity, Tokens("t"), LONG).kind == ""


@pytest.mark.parametrize("id", ["", "1 2", "1\n", "1\u202e", "1\ud800", "1" * 1_025])
def test_an_unusable_id_is_refused(id: str) -> None:
    with pytest.raises(ApiError, match="The account id from the platform cannot be used"):
        AccountIdentity(id)
    for make in (lambda: Published(id), lambda: Published("1", cid=id)):
        with pytest.raises(ApiError) as caught:
            make()
        assert caught.value.outcome is Outcome.AMBIGUOUS
    assert to_id(id) == ""


def test_an_unusable_address_is_left_out() -> None:
    assert Published("1", LONG, None, "https://x.test/a b") == Published("1")
    assert to_address("https://x.test/1") == "https://x.test/1"
    assert to_address(LONG) == to_address(5) == ""


@pytest.mark.parametrize("token", ["a\r\nb", "ä", "\ud800", LONG])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    for make in (lambda: Tokens(token), lambda: Tokens("a", token)):
        with pytest.raises(ApiError) as caught:
            make()
        assert caught.value.outcome is Outcome.AMBIGUOUS
        assert token not in repr(vars(caught.value))


def test_an_expiry_has_a_date_and_scopes_are_bounded() -> None:
    found = Tokens("a", expires_at_ms=10**15, private={"scopes": ["s", LONG, *map(str, range(200))], "login": "5"})
    assert format_iso(found.expires_at_ms or 0).startswith("9999-12-31")
    assert len(found.private["scopes"]) == bounds.FACTS_MAX
    assert found.private["login"] == "5"


@pytest.mark.parametrize("value", [-1, True, 1 << 53, "1" * 5_000, "٣", "", None])
def test_a_number_beyond_reason_is_no_number(value: object) -> None:
    assert to_count(value) is None
    assert (to_count(7), to_count("7")) == (7, 7)


def test_a_wait_of_centuries_is_a_year() -> None:
    usage = {"1": [{"estimated_time_to_regain_access": 10**12}, {"estimated_time_to_regain_access": 10**400}]}
    reply = UpstreamResponse(400, {"x-business-use-case-usage": dumps(usage)}, b"")
    assert get_wait_seconds(reply) == 366 * 86_400


@pytest.mark.parametrize("name", [name for name, connector in sorted(CONNECTORS.items()) if connector.PLATFORM.oauth])
def test_a_refusal_of_any_length_is_told_in_bounds(name: str) -> None:
    body = {"error": "invalid_grant", "error_description": LONG}
    reply = UpstreamResponse(400, {}, dumps(body).encode())
    with pytest.raises(ApiError) as caught:
        oauth.parse_tokens(CONNECTORS[name].PLATFORM, reply, 0)
    assert len(caught.value.message) < bounds.MESSAGE_MAX + 100
    assert len(dumps(caught.value.platform_response)) < len(LONG)
