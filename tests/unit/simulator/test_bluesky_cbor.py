"""DAG-CBOR encoding and content ids (CIDs) of the fake Bluesky."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.simulator.bluesky import cbor

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def test_a_record_has_the_cid_that_a_real_server_gives_it() -> None:
    record = {"$type": "app.bsky.feed.post", "text": "first post", "createdAt": "2026-11-20T09:10:09.000Z"}
    assert cbor.record_cid(record) == "bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhdu"


def test_an_empty_blob_has_the_cid_that_a_real_server_gives_it() -> None:
    assert cbor.blob_cid(b"") == "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"


@pytest.mark.parametrize(
    "value, encoded",
    [
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (256, "190100"),
        (65_536, "1a00010000"),
        (2**32, "1b0000000100000000"),
        (-1, "20"),
        (-25, "3818"),
        (None, "f6"),
        (True, "f5"),
        (False, "f4"),
        ("ü", "62c3bc"),
        ([1, [2]], "82018102"),
        ({"bb": 1, "a": 2, "c": 3}, "a36161026163036262620 1".replace(" ", "")),
        ({"$bytes": "YWJj"}, "43616263"),
    ],
)
def test_values_are_encoded_as_dag_cbor(value: Any, encoded: str) -> None:
    assert cbor.encode(value).hex() == encoded


@pytest.mark.parametrize("value", [1.5, 2**53, -(2**53), {"a": object()}])
def test_what_the_data_model_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        cbor.encode(value)


@given(st.dictionaries(st.text(), values, max_size=6))
def test_the_order_of_keys_does_not_matter(record: dict[str, Any]) -> None:
    backwards = json.loads(json.dumps(dict(reversed(record.items()))))
    assert cbor.record_cid(backwards) == cbor.record_cid(record)


@pytest.mark.parametrize(
    "value, expected",
    [
        ({"$link": "bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhdu"}, True),
        ({"$link": "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"}, True),
        ({"$link": "bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhd"}, False),
        ({"$link": "caf" + "y" * 56}, False),
        ({"$link": 5}, False),
        ({"$link": "x", "more": 1}, False),
        ("bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhdu", False),
    ],
)
def test_a_link_is_a_cid_and_nothing_else(value: Any, expected: bool) -> None:
    assert cbor.is_link(value) is expected
