"""A body looked through as it arrives: what comes out is the same JSON, without its files, and never too much of it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.errors import ApiError
from socialpub.domain.media import files
from socialpub.domain.shapes.common import TEXT_MAX
from socialpub.domain.shapes.posts import MEDIA_MAX, TARGETS_MAX
from socialpub.web import scan as scans
from socialpub.web.scan import DEPTH_MAX, ENTRIES_MAX, FIELDS_MAX, NOTHING, PARTS_MAX, PLAIN_MAX, Scan

Open = Callable[[], files.Arriving]
CONTENTS = [b"x", b"ab", b"abc", bytes(range(256)), b"\xff\xfe" * 5000]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    yield lambda: files.Arriving(tmp_path)
    assert list(tmp_path.iterdir()) == [], "a file was left"


def fed(text: bytes, size: int, open_file: Open | None = None) -> Scan:
    """A scan that got the text in pieces of `size`."""
    scan = Scan(open_file)
    try:
        feed(scan, text, size)
    except ApiError:
        scan.close()
        raise
    return scan


def feed(scan: Scan, text: bytes, size: int) -> None:
    for at in range(0, len(text), size):
        scan.feed(text[at : at + size])


NAMES = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(value=VALUES, size=st.integers(1, 40), ascii_only=st.booleans())
def test_any_json_comes_out_as_it_was_however_it_comes_in(value: Any, size: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    scan = fed(text, size)
    assert bytes(scan.kept) == text
    assert scan.twice is None


@given(value=VALUES, ascii_only=st.booleans())
def test_a_short_body_is_taken_at_once_where_the_whole_scan_finds_nothing(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    scan = Scan()
    assert scan.take_plain(text) or b"\xed" in text  # half a character
    assert scan.kept == (text if scan.kept else b"")


SIGNS = st.text(alphabet='ab":\\\\,{}[] \n\u00e9\U0001f600', max_size=3)


def as_object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)} :{value}" for name, value in pairs) + "}"


BODIES = st.recursive(
    (SIGNS | st.integers() | st.booleans() | st.none()).map(json.dumps),
    lambda inner: (
        st.lists(st.tuples(SIGNS, inner), max_size=4).map(as_object)
        | st.lists(inner, max_size=3).map(lambda values: f"[{','.join(values)}]")
    ),
    max_leaves=8,
)


@settings(max_examples=500)
@given(text=BODIES)
def test_a_name_that_stands_twice_is_seen_whatever_signs_are_in_the_strings_beside_it(text: str) -> None:
    seen = []
    json.loads(text, object_pairs_hook=lambda pairs: seen.append(len(dict(pairs)) == len(pairs)))
    assert scans.is_plain(text.encode()) == all(seen)


@given(value=st.lists(st.integers(), max_size=60) | st.dictionaries(NAMES, st.none(), max_size=60) | VALUES)
def test_few_signs_are_never_too_many_parts(value: Any) -> None:
    few = scans._has_few_parts(json.dumps({"media": value, "targets": value}).encode())
    assert not few or scans._is_within({"media": value, "targets": value}, "", DEPTH_MAX)


def test_as_many_targets_as_there_may_be_are_taken_at_once() -> None:
    for count in (1, TARGETS_MAX - 1, TARGETS_MAX):
        assert Scan().take_plain(json.dumps({"text": "a, b", "targets": [{"accountId": "x"}] * count}).encode())


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":{"b":[{"c":1,"\\u0063":2}]}}',
        nested(DEPTH_MAX + 1),
        nested(3000),
        json.dumps({str(number): 1 for number in range(FIELDS_MAX + 1)}),
        json.dumps([0] * (ENTRIES_MAX + 1)),
        json.dumps({"targets": [0] * 26}),
        json.dumps({"media": [0] * (MEDIA_MAX + 1)}),
        json.dumps({"media": [{"bytesBase64": "AAAA"}]}),
        r'{"media":[{"bytesBase6\u0034":"AAAA"}]}',
        json.dumps({"n" * 101: 1}),
        json.dumps({"text": "x" * PLAIN_MAX}),
        "{",
        "",
        "\ufeff{}",
    ],
)
def test_of_anything_else_nothing_is_taken_at_once(text: str) -> None:
    scan = Scan()
    assert not scan.take_plain(text.encode())
    assert (scan.kept, scan.inline, scan.twice) == (b"", {}, None)


@given(text=st.binary(max_size=60) | st.text('{}[],:" \\u0aé1', max_size=40).map(str.encode), size=st.integers(1, 9))
def test_what_is_no_json_is_left_to_the_parser(text: bytes, size: int) -> None:
    try:
        wanted = json.loads(text)
    except ValueError:
        fed(text, size)
        return
    assert json.loads(bytes(fed(text, size).kept)) == wanted


# --- Bounds: what is counted is what was looked at ---


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


TOO_MUCH: dict[str, tuple[bytes, str]] = {
    "levels": (nested(DEPTH_MAX + 1), "body.json"),
    "entries": (b'{"langs":[' + b"0," * ENTRIES_MAX + b"0]}", "langs"),
    "targets": (b'{"targets":[' + b"0," * ENTRIES_MAX + b"0]}", "targets.max"),
    "entries of an entry": (b'{"a":[0,[' + b"0," * ENTRIES_MAX + b"0]]}", "a.1"),
    "media": (b'{"media":[' + b"0," * MEDIA_MAX + b"0]}", "media"),
    "media of a target": (b'{"targets":[{},{"media":[' + b'{"url":"x"},' * MEDIA_MAX + b"{}]}]}", "targets.1.media"),
    "characters": (b'{"a":[1,{"b":"' + b"x" * (TEXT_MAX + 1) + b'"}]}', "a.1.b"),
    "characters of two bytes": (b'{"a":"' + "é".encode() * (TEXT_MAX + 1) + b'"}', "a"),
    "fields": (json.dumps({f"f{n}": 0 for n in range(FIELDS_MAX + 1)}).encode(), "body"),
    "parts": (b"[" + b",".join([b"[" + b"0," * 999 + b"0]"] * 20) + b"]", "body"),
    "signs": (b"," * (PARTS_MAX + 1), "body"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
@pytest.mark.parametrize("size", [7, 1_000_000])
def test_too_much_is_refused_where_it_begins(what: str, size: int) -> None:
    text, rule = TOO_MUCH[what]
    scan, more = Scan(), text + b",0" * 100_000
    with pytest.raises(ApiError) as refused:
        feed(scan, more, size)
    assert refused.value.rule == rule
    assert len(json.dumps(refused.value.platform_response)) < 1000
    assert len(scan.kept) <= len(text), "it went on looking"


@pytest.mark.parametrize("what", ["levels", "fields"])
def test_as_much_as_is_taken_is_taken(what: str) -> None:
    text = {"levels": nested(DEPTH_MAX), "fields": json.dumps(dict.fromkeys(map(str, range(FIELDS_MAX)))).encode()}
    assert bytes(fed(text[what], 50).kept) == text[what]


@pytest.mark.parametrize("char", ["x", "é", "€", "😀", "\n", '"', "\\"])
@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize("size", [7, 1000, 10**7])
def test_a_text_as_long_as_one_may_be_is_taken(char: str, escaped: bool, size: int) -> None:
    text = json.dumps({"text": char * TEXT_MAX}, ensure_ascii=escaped).encode()
    assert bytes(fed(text, size).kept) == text


def test_of_a_long_name_a_beginning_is_kept() -> None:
    name = 'ü\\n\\"' * 1_000_000
    scan = fed(b'{"' + name.encode() + b'":1,"b":2}', 65536)
    (cut, other) = json.loads(bytes(scan.kept))
    assert (len(cut), cut[:2], other) == (101, "ün", "b")


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"b":[{"a":1,"\\u0061":{}}]}'])
def test_a_name_that_stands_twice_is_told(text: str) -> None:
    for size in range(1, len(text)):
        assert fed(text.encode(), size).twice == "a"


# --- Files ---


def carrying(content: bytes, escape: str = "") -> bytes:
    digits = base64.b64encode(content).decode()
    if escape:
        digits = "".join(escape.format(ord(char)) if char in "+/=A" else char for char in digits)
    return f'{{"media":[{{"kind":"image","bytesBase64":"{digits}","altText":"a"}}]}}'.encode()


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("escape", ["", "\\u{:04x}", "\\u{:04X}"])
@pytest.mark.parametrize("size", [1, 3, 1000, 10**6])
def test_a_file_goes_to_the_disk_and_its_hash_stays(content: bytes, escape: str, size: int, opened: Open) -> None:
    scan = fed(carrying(content, escape), size, opened)
    sha256 = hashlib.sha256(content).hexdigest()
    item = {"kind": "image", "bytesBase64": sha256, "altText": "a"}
    assert json.loads(bytes(scan.kept)) == {"media": [item]}
    assert list(scan.inline) == [sha256]
    assert scan.inline[sha256].path.read_bytes() == content
    assert scan.aside + len(scan.kept) >= len(carrying(content, escape))
    scan.close()


def test_slashes_may_be_escaped_and_so_may_the_name(opened: Open) -> None:
    text = b'{"bytes\\u0042ase64":"\\/\\/\\/\\/","x":{"bytesBase64":"/\\u002f//"}}'
    for size in range(1, len(text)):
        scan = fed(text, size, opened)
        assert [file.path.read_bytes() for file in scan.inline.values()] == [b"\xff\xff\xff"]
        scan.close()


NOT_BASE64 = [
    "",
    "=",
    "A",
    "AA",
    "AAA",
    "AA=",
    "AA==A",
    "AA==AAAA",
    "A===",
    "AA AA",
    "AA\\nAA",
    "AA-_",
    "éAAA",
    "AA\\",
    "\\u00",
    "\\u00zzAA",
    "AAAA====",
    "\\u0141AAA",
]


@pytest.mark.parametrize("digits", NOT_BASE64)
def test_what_is_no_base64_leaves_nothing(digits: str, opened: Open) -> None:
    text = f'{{"bytesBase64":"AAAA{digits}"}}' if digits else '{"bytesBase64":""}'
    for size in (1, 2, 5, 100):
        scan = fed(text.encode(), size, opened)
        assert scan.inline == {}
        if not digits.endswith("\\"):
            assert json.loads(bytes(scan.kept)) == {"bytesBase64": NOTHING}
        scan.close()


def test_no_text_passes_for_a_file(opened: Open) -> None:
    """A hash that is sent as text is base64 of something else."""
    sha256 = hashlib.sha256(b"abc").hexdigest()
    text = carrying(b"abc")[:-2] + b',{"bytesBase64":"' + sha256.encode() + b'"},{"bytesBase64":{}}]}'
    scan = fed(text, 50, opened)
    first, second, third = (item["bytesBase64"] for item in json.loads(bytes(scan.kept))["media"])
    assert first == sha256 != second
    assert scan.inline[second].path.read_bytes() == base64.b64decode(sha256)
    assert third == {}
    scan.close()


def test_a_body_that_breaks_off_leaves_nothing(opened: Open) -> None:
    fed(carrying(b"abc" * 1000)[:2000], 100, opened).close()
