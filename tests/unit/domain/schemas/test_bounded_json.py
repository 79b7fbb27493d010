"""JSON request parser: limits on values and depth, duplicate names, error positions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.errors import ApiError
from socialpub.domain.schemas.bounded_json import DEPTH_MAX, DUPLICATE_SEARCH_MAX, VALUES_MAX, load

NAMES = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


def refusal(body: bytes) -> ApiError | None:
    try:
        load(body)
    except ApiError as error:
        return error
    return None


def message(body: bytes) -> str:
    with pytest.raises(ApiError) as refused:
        load(body)
    assert refused.value.rule == "body.json"
    return refused.value.message


@pytest.mark.slow
@given(value=VALUES, ascii_only=st.booleans())
def test_any_json_is_read_as_it_stands_there(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=True).encode("utf-8", "surrogatepass")
    if (refused := refusal(text)) is None:
        assert load(text) == value
    else:
        assert refused.rule == "body.json"
        assert any(sign in text for sign in (b"\xed", b"\\ud", b"Infinity"))  # half a character, or no number


SIGNS = st.text(alphabet='ab":\\\\,{}[] \n\u00e9\U0001f600', max_size=3)


def as_object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)} :{value}" for name, value in pairs) + "}"


BODIES = st.recursive(
    (SIGNS | st.integers(0, 9) | st.booleans() | st.none()).map(json.dumps),
    lambda inner: (
        st.lists(st.tuples(SIGNS, inner), max_size=4).map(as_object)
        | st.lists(inner, max_size=3).map(lambda values: f"[{','.join(values)}]")
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(text=BODIES)
def test_duplicate_name_is_detected_beside_any_string_content(text: str) -> None:
    seen = []
    json.loads(text, object_pairs_hook=lambda pairs: seen.append(len(dict(pairs)) == len(pairs)))
    refused = refusal(text.encode())
    assert (refused is None) == all(seen)
    assert refused is None or "twice" in refused.message


@given(text=st.binary(max_size=60) | st.text('{}[],:" \\u0aé1', max_size=40).map(str.encode))
def test_anything_else_is_refused(text: bytes) -> None:
    try:
        wanted = json.loads(text)
    except ValueError:
        assert message(text.replace(b"\xef\xbb\xbf", b"")) == "The body is not valid JSON."
        return
    if (refused := refusal(text)) is None:
        assert load(text) == wanted
    else:
        assert refused.rule == "body.json"


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"b":[{"a":1,"\\u0061":{}}]}'])
def test_a_name_that_stands_twice_is_told(text: str) -> None:
    assert message(text.encode()) == "The body names `a` twice in one object."
    assert message(text.encode() + b" " * DUPLICATE_SEARCH_MAX) == "The body names something twice in one object."


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


TOO_MUCH = {
    "values": b"[" + b"0," * VALUES_MAX + b"0]",
    "arrays": b"[" + b"[[]]," * (VALUES_MAX // 2) + b"0]",
    "fields": json.dumps(dict.fromkeys(map(str, range(VALUES_MAX + 1)))).encode(),
    "commas": b"," * (VALUES_MAX + 1),
    "open arrays": b"[" * (VALUES_MAX + 1),
    "open objects": b'{"a":' * (VALUES_MAX + 1),
    "strings": b'""' * (2 * VALUES_MAX + 1),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_too_many_values_are_refused_before_they_are_parsed(what: str) -> None:
    assert message(TOO_MUCH[what]) == "The body has more than 15,000 values."


@pytest.mark.parametrize("text", ["," * 10**6, '",' * 10**5, "\\," * 10**5, "[{" * 10**5, '\\"' * 10**5])
def test_what_stands_in_a_text_is_not_counted(text: str) -> None:
    body = {"text": text, "targets": [{"text": text}] * 3}
    assert load(json.dumps(body).encode()) == body


def test_levels_are_counted() -> None:
    assert load(nested(DEPTH_MAX)) == json.loads(nested(DEPTH_MAX))
    for levels in (DEPTH_MAX + 1, 500):
        assert message(nested(levels)) == "The body is more than 32 levels deep."
    assert message(nested(2000)) == "The body is not valid JSON."


def test_what_is_no_json_says_where() -> None:
    with pytest.raises(ApiError) as refused:
        load(b'{"text":\n"a",}')
    (issue,) = refused.value.platform_response
    assert (issue["code"], issue["path"]) == ("json_invalid", [])
    assert "line 2 column" in issue["message"]
