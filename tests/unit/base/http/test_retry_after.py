"""Parsing of the Retry-After header: seconds, dates, invalid values, clock offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.http import UpstreamResponse, retry_after

NOW = datetime(2026, 11, 26, 8, 0, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)

FORMS = [
    ("600", 600),
    (" 600 ", 600),
    ("600.5", 601),
    ("0.1", 1),
    ("0", 0),
    ("-5", 0),
    ("-0.5", 0),
    ("999999999999", retry_after.SECONDS_MAX),
    ("Thu, 26 Nov 2026 08:10:00 GMT", 600),  # RFC 9110: the one to send, and two that must be read
    ("Thursday, 26-Nov-26 08:10:00 GMT", 600),
    ("Thu Nov 26 08:10:00 2026", 600),
    ("Thu, 26 Nov 2026 09:10:00 +0100", 600),
    ("Thu, 26 Nov 2026 07:00:00 GMT", 0),
    ("Mon, 26 Nov 2999 08:10:00 GMT", retry_after.SECONDS_MAX),
]
NONE = [
    "",
    " ",
    "soon",
    "1e3",
    "inf",
    "nan",
    "0x10",
    "１０",
    "1 0",
    "5s",
    "600, 600",
    "--5",
    "Thu, 99 Nov 2026",
    "9" * 5000,
    "Thu, 26 Nov 99999 08:10:00 GMT",
    "Thu, 26 Nov 2026 08:10:00 " + "x" * 100_000,
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_every_form_is_understood(text: str, expected: int) -> None:
    assert retry_after.parse_seconds(text, NOW_MS) == expected


@pytest.mark.parametrize("text", NONE)
def test_what_is_none_says_nothing(text: str) -> None:
    assert retry_after.parse_seconds(text, NOW_MS) is None
    assert retry_after.parse_reset_time(text, NOW_MS) is None


@given(st.text(max_size=80))
def test_no_text_fails_and_no_wait_is_out_of_bounds(text: str) -> None:
    for found in (retry_after.parse_seconds(text, NOW_MS), retry_after.parse_reset_time(text, NOW_MS)):
        assert found is None or 0 <= found <= retry_after.SECONDS_MAX


@given(st.integers(0, 10_000_000))
def test_a_date_and_its_seconds_mean_the_same(wait: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=wait), usegmt=True)
    assert retry_after.parse_seconds(date, NOW_MS) == retry_after.parse_seconds(str(wait), NOW_MS)
    assert retry_after.parse_reset_time(str(NOW_MS // 1000 + wait), NOW_MS) == retry_after.parse_seconds(
        str(wait), NOW_MS
    )


def test_a_date_is_relative_to_the_upstreams_clock_else_to_ours() -> None:
    headers = {"retry-after": "Thu, 26 Nov 2026 08:10:00 GMT"}
    assert UpstreamResponse(429, headers, b"", received_ms=NOW_MS).retry_after == 600
    assert (
        UpstreamResponse(429, headers | {"date": "Thu, 26 Nov 2026 08:09:00 GMT"}, b"", received_ms=NOW_MS).retry_after
        == 60
    )
    assert UpstreamResponse(429, headers | {"date": "yesterday"}, b"", received_ms=NOW_MS).retry_after == 600
    assert UpstreamResponse(429, headers, b"").retry_after is None
