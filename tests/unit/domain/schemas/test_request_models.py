"""Properties of request models: ISO 8601 instants, and cross-field validation."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import parse_instant, parse_instant_rounded_up
from socialpub.domain.schemas.posts import PublishRequest

LAST = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
MINUTES = st.integers(-23 * 60 - 59, 23 * 60 + 59)


@given(st.integers(0, LAST))
def test_an_instant_is_read_as_it_is_written(ms: int) -> None:
    assert parse_instant(str(format_iso(ms))) == ms


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
    lower, upper = parse_instant(text), parse_instant_rounded_up(text)
    for ms in range(lower - 1, upper + 2):
        assert (ms > lower) == (Fraction(ms, 1000) > exact)
        assert (ms < upper) == (Fraction(ms, 1000) < exact)


TWO = st.integers(0, 99) | st.integers(0, 61)
FIELDS = st.tuples(
    st.sampled_from([0, 1, 4, 1900, 1969, 1970, 2024, 2026, 9999]) | st.integers(0, 9999),
    st.integers(0, 13),
    st.integers(0, 32),
    st.integers(0, 25),
    TWO,
    TWO,
)
ZONES = st.just("Z") | st.tuples(st.sampled_from("+-"), st.integers(0, 25), TWO)


@given(FIELDS, ZONES, st.sampled_from("Tt "))
@example((1, 1, 1, 0, 0, 0), ("+", 0, 1), "T")
@example((9999, 12, 31, 23, 59, 59), ("-", 0, 1), "T")
@example((2026, 1, 1, 24, 0, 0), "Z", "T")
@example((2026, 1, 1, 0, 0, 0), ("+", 23, 60), "T")
def test_what_is_read_is_what_its_fields_say_and_what_they_do_not_is_none(
    fields: tuple[int, ...], zone: Any, between: str
) -> None:
    year, month, day, *time = fields
    shift = zone if zone == "Z" else f"{zone[0]}{zone[1]:02d}:{zone[2]:02d}"
    text = f"{year:04d}-{month:02d}-{day:02d}{between}{':'.join(f'{part:02d}' for part in time)}{shift}"
    try:
        ahead = timedelta(0) if zone == "Z" else timedelta(hours=zone[1], minutes=zone[2])
        there = timezone(-ahead if shift.startswith("-") else ahead)
        said = datetime(year, month, day, *time, tzinfo=there).astimezone(UTC)  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError):
        said = None
    if said is None or (zone != "Z" and zone[2] > 59):
        with pytest.raises(PydanticCustomError, match="not a date-time that exists"):
            parse_instant(text)
    else:
        assert parse_instant(text) == (said - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text",
    ["2026-W01-1T00:00:00Z", "20260101T000000Z", "2026-01-01T00:00Z", "2026-01-01", "2026-01-01T00:00:00",
     "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00+01", "2026-01-01T00:00:00+0100",
     "2026-01-01T00:00:00+01:00:30", "2026-01-01_00:00:00Z", "٢026-01-01T00:00:00Z", " 2026-01-01T00:00:00Z"],
)  # fmt: skip
def test_no_other_form_of_iso_8601_is_an_instant(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="RFC 3339"):
        parse_instant(text)


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
def test_cross_field_errors_are_the_same_in_raw_and_parsed_requests(request: Any) -> None:
    read = validation.parse_body(PublishRequest, json.dumps(request).encode())
    assert validation.list_publish_issues(
        read.model_dump(by_alias=True, exclude_unset=True)
    ) == validation.list_publish_issues(request)


@given(REQUESTS)
def test_an_issue_of_one_field_hides_none_across_fields(request: Any) -> None:
    broken = json.dumps(request | {"publishNow": "yes"}).encode()
    with pytest.raises(ApiError) as refused:
        validation.parse_body(PublishRequest, broken)
    assert refused.value.rule == "publishNow"
    assert refused.value.platform_response[1:] == validation.list_publish_issues(request)
