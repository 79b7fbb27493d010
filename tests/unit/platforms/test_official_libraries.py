"""Text parsing against the platforms' official libraries, in twenty-five scripts.

One difference is intended: a link on Bluesky excludes all closing punctuation of a sentence or quotation, of which the
library excludes one ASCII character.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
import regex

from socialpub.platforms.bluesky.text import build_facets
from socialpub.platforms.kit.tlds import TLDS
from socialpub.platforms.twitter.text import find_cashtags, find_urls, weighted_length
from tests.support.official_text.recordings import TextReading, install_libraries, load_recordings, read_texts
from tests.support.official_text.samples import CLOSING, JOINERS, make_linked_text, make_tagged_text, texts

FRESH = 10_000  # texts of each kind
Facet = tuple[int, int, str, str]


def resolved(handle: str) -> str | None:
    """The library asks for a known top-level domain, we for a handle that resolves: here these are the same."""
    return handle if handle.rpartition(".")[2] in TLDS | {"test"} else None


def ours(text: str) -> list[Facet]:
    found = []
    for facet in build_facets(text, resolved):
        (value,) = (value for name, value in facet["features"][0].items() if name != "$type")
        kind = facet["features"][0]["$type"].partition("#")[2]
        found.append((facet["index"]["byteStart"], facet["index"]["byteEnd"], kind, value))
    return found


def theirs(found: TextReading) -> list[Facet]:
    return sorted(
        (start, end, kind, value.lower() if kind == "mention" else value)
        for start, end, kind, value in found["bluesky"]
    )


def agree(one: Facet, other: Facet) -> bool:
    """Whether ours (`one`) is the library's, or its link without what closes a sentence."""
    if one == other:
        return True
    rest = other[3].removeprefix(one[3])
    is_shorter = one[0] == other[0] and one[3] + rest == other[3] and other[1] - one[1] == len(rest.encode())
    return one[2] == other[2] == "link" and is_shorter and set(rest) <= {*CLOSING, ")"}


def differences(text: str, found: TextReading) -> list[object]:
    """Where we read a text in another way."""
    mine, official = ours(text), theirs(found)
    same = len(mine) == len(official) and all(map(agree, mine, official))
    x = (weighted_length(text), [text[url.start : url.end] for url in find_urls(text)], find_cashtags(text))
    same_x = x == (found["length"], found["urls"], found["cashtags"])
    return [*([] if same else [(text, mine, official)]), *([] if same_x else [(text, x, found)])]


def test_recorded_texts_are_read_as_the_libraries_read_them() -> None:
    assert [each for text, found in load_recordings() for each in differences(text, found)] == []


def test_the_recorded_texts_hold_what_they_are_for() -> None:
    whole = "".join(text for text, _ in load_recordings())
    scripts = {unicodedata.name(char).partition(" ")[0] for char in whole if regex.match(r"\p{L}", char)}
    assert len(scripts) >= 20
    assert set(JOINERS) <= set(whole)
    kinds = [facet[2] for _, found in load_recordings() for facet in found["bluesky"]]
    assert all(kinds.count(kind) > 20 for kind in ("tag", "mention", "link"))
    assert sum(len(found["urls"]) for _, found in load_recordings()) > 50
    assert sum(len(found["cashtags"]) for _, found in load_recordings()) > 10


@pytest.mark.slow
def test_fresh_texts_are_read_as_the_libraries_read_them(tmp_path: Path) -> None:
    install_libraries(tmp_path)
    for seed, make in ((1, make_tagged_text), (2, make_linked_text)):
        given = list(texts(seed, FRESH, make))
        found = read_texts(tmp_path, given)
        wrong = [each for text, one in zip(given, found, strict=True) for each in differences(text, one)]
        assert wrong[:5] == []
