"""UUIDv7 id generation (monotonic, prefixed) and its base62 text encoding."""

from __future__ import annotations

import secrets
import string
import uuid

from hypothesis import given
from hypothesis import strategies as some

from socialpub.base.runtime import IdGenerator
from socialpub.base.security import crypto
from tests.support.app_server import MovableClock

DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase


def number_of(text: str) -> int:
    return sum(DIGITS.index(digit) * 62**place for place, digit in enumerate(reversed(text)))


def test_ids_rise_and_are_of_version_7_with_the_time_in_front() -> None:
    clock = MovableClock()
    at = clock.stop()
    ids = IdGenerator(clock, secrets.token_bytes)
    made = [uuid.UUID(ids.uuid()) for _ in range(200)]
    clock.stop(at - 1000)  # a clock that is set back takes no id back
    made += [uuid.UUID(ids.uuid()) for _ in range(3)]
    assert made == sorted(set(made))
    assert {(one.version, one.variant, one.int >> 80) for one in made} == {(7, uuid.RFC_4122, at)}


def test_a_prefixed_id_is_the_same_kind_of_number_in_22_characters() -> None:
    ids = IdGenerator(MovableClock(), secrets.token_bytes)
    before = uuid.UUID(ids.uuid()).int
    text = ids.prefixed("req_")
    found = uuid.UUID(int=number_of(text.removeprefix("req_")))
    assert (len(text), found.version, found.variant) == (26, 7, uuid.RFC_4122)
    assert found.int > before


@given(some.integers(min_value=0, max_value=2**256 - 1))
def test_a_number_in_base62_is_that_number(number: int) -> None:
    text = crypto.encode_base62(number, 43)
    assert (len(text), number_of(text)) == (43, number)


def test_the_shortest_text_has_the_width_that_was_asked_for() -> None:
    assert [crypto.encode_base62(number, 2) for number in (0, 1, 61, 62, 3843)] == ["00", "01", "0z", "10", "zz"]
