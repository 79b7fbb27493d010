"""Laws of the request shapes: instants, and what stands across a publish request's fields."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.errors import ApiError
from socialpub.base.runtime import iso
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.common import parse_instant, parse_upper
from socialpub.domain.shapes.posts import PublishRequest

LAST = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
MINUTES = st.integers(-23 * 60 - 59, 23 * 60 + 59)


@given(st.integers(0, LAST))
def test_an_instant_is_read_as_it_is_written(ms: int) -> None:
    assert parse_instant(str(iso(ms))) == ms


@given(st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1)), MINUTES)
def test_an_offset_moves_the_clock_and_not_the_instant(moment: datetime, minutes: int) -> None:
    there = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    sign = "-" if minutes < 0 else "+"
    text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    exact = (there - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_instant(text) == exact


@given(st.datetimes(datetime(1901, 1, 1), datetime(9998, 1, 1)), st.integers(0, 9), st.data())
def test_a_bound_holds_for_whole_milliseconds_as_it_holds_for_the_instant(
    second: datetime, digits: int, data: st.DataObject
) -> None:
    """Exclusive from both ends: after it means above the one reading, before it below the other."""
    fraction = data.draw(st.text("0123456789", min_size=digits, max_size=digits))
    text = f"{second:%Y-%m-%dT%H:%M:%S}" + (f".{fraction}" if fraction else "") + "Z"
    whole = (second.replace(microsecond=0, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    exact = whole + Fraction(int(fraction or 0), 10**digits)
    lower, upper = parse_instant(text), parse_upper(text)
    for ms in range(lower - 1, upper + 2):
        assert (ms > lower) == (Fraction(ms, 1000) > exact)
        assert (ms < upper) == (Fraction(ms, 1000) < exact)


TARGETS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "accountId": st.just("01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"),
            "platform": st.just("bluesky"),
            "text": st.just("own"),
            "media": st.sampled_from([[], [{"kind": "image", "url": "https://example.com/a"}]]),
            "options": st.just({"platform": "bluesky"}),
        },
    ),
    max_size=4,
)
REQUESTS = st.fixed_dictionaries(
    {"targets": TARGETS},
    optional={"text": st.just("default"), "media": st.just([{"kind": "image", "url": "https://example.com/b"}])},
)


@given(REQUESTS)
def test_what_stands_across_fields_is_found_alike_in_what_was_sent_and_in_what_was_read(request: Any) -> None:
    read = issues.parse_body(PublishRequest, json.dumps(request).encode())
    assert issues.shape_issues(read.model_dump(by_alias=True, exclude_unset=True)) == issues.shape_issues(request)


@given(REQUESTS)
def test_an_issue_of_one_field_hides_none_across_fields(request: Any) -> None:
    broken = json.dumps(request | {"publishNow": "yes"}).encode()
    with pytest.raises(ApiError) as refused:
        issues.parse_body(PublishRequest, broken)
    assert refused.value.rule == "publishNow"
    assert refused.value.platform_response[1:] == issues.shape_issues(request)
