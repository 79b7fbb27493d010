"""Text search of GET /v1/posts: substring, case-insensitive as Python's casefold is, nothing is a wildcard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.domain.posts.test_postlog import fill, listed, refused
from tests.kit import Person, Server

TEXTS = {
    "unicode": "Der ünïcode Text",
    "athens": "Η ΕΛΛΑΔΑΣ και οι Έλληνες",
    "moscow": "Скажи Привет миру",
    "cafe": "at the CAFÉ today",
    "street": "Große Straße",
    "istanbul": "İstanbul",
    "istanbul2": "Istanbul and ISPARTA",
    "emoji": "ship it 🚀🚀 👨‍👩‍👧 now",
    "percent": "100% sure_thing",
    "plain": "100x sure-thing",
    "back": r"C:\new\table",
    "quotes": """say "hi" and 'bye'""",
    "tokyo": "日本語のテキスト",
    "osaka": "大阪",
    "query": 'AND OR NOT NEAR("x") fold : * ^ -',
    "spaces": "two  spaces",
    "short": "z",
    "ligature": "ﬁne oﬃce",
    "control": "tab\there\u0001and \ufffdthere",
}


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    return make_server(limits={"reads": 100_000})


@pytest.fixture
def found(server: Server, alice: Person) -> Callable[[str], list[str]]:
    """The names of the texts that a search finds."""
    ids = dict(zip(fill(server, alice, *[{"text": text} for text in TEXTS.values()]), TEXTS, strict=True))

    def search(q: str) -> list[str]:
        return sorted(ids[post] for post in listed(alice, f"q={quote(q, safe='')}"))

    return search


CASES: list[tuple[str, list[str]]] = [
    ("ünïcode", ["unicode"]),
    ("ÜNÏCODE", ["unicode"]),
    ("unicode", []),
    ("ελλάδα", []),  # an accent is a difference
    ("ελλαδας", ["athens"]),  # final sigma
    ("ΕΛΛΑΔΑΣ", ["athens"]),
    ("ελλαδα", ["athens"]),
    ("λαδας και", ["athens"]),
    ("έλληνες", ["athens"]),
    ("привет", ["moscow"]),
    ("ПРИВЕТ", ["moscow"]),
    ("вет ми", ["moscow"]),
    ("ив", ["moscow"]),
    ("café", ["cafe"]),
    ("CAFÉ", ["cafe"]),
    ("cafe", []),
    ("STRASSE", ["street"]),
    ("straße", ["street"]),
    ("ß", ["street"]),
    ("ss", ["street"]),
    ("SSE", ["street"]),
    ("ẞ", ["street"]),
    ("İstanbul", ["istanbul"]),
    ("i̇stanbul", ["istanbul"]),
    ("istanbul", ["istanbul2"]),  # İ folds to i and a dot above: it is another text
    ("ISTANBUL", ["istanbul2"]),
    ("stanbul", ["istanbul", "istanbul2"]),
    ("🚀", ["emoji"]),
    ("🚀🚀", ["emoji"]),
    ("🚀🚀 ", ["emoji"]),
    ("👨‍👩‍👧", ["emoji"]),
    ("👩‍👧 NOW", ["emoji"]),
    ("%", ["percent"]),
    ("100%", ["percent"]),
    ("100", ["percent", "plain"]),
    ("0%x", []),
    ("_", ["percent"]),
    ("sure_thing", ["percent"]),
    ("sure thing", []),
    ("\\", ["back"]),
    ("\\new\\", ["back"]),
    ("\\n", ["back"]),
    ('"', ["query", "quotes"]),
    ('say "hi"', ["quotes"]),
    ("'bye'", ["quotes"]),
    ('""', []),
    ("日本", ["tokyo"]),
    ("本語の", ["tokyo"]),
    ("大阪", ["osaka"]),
    ("阪", ["osaka"]),
    ("日語", []),
    ("AND OR", ["query"]),
    ('near("x")', ["query"]),
    ("fold : *", ["query"]),
    ("* ^ -", ["query"]),
    ("*", ["query"]),
    ("text OR 100", []),
    ("  ", ["spaces"]),
    ("o  s", ["spaces"]),
    (" two", []),  # not trimmed
    ("two ", ["spaces"]),
    ("z", ["short"]),
    ("zz", []),
    ("fine", ["ligature"]),
    ("OFFICE", ["ligature"]),
    ("b\there", ["control"]),
    ("\u0001and", ["control"]),
    ("\ufffdthere", ["control"]),
    ("\uffffthere", []),
    ("\0", []),
    ("tab\0", []),
    ("absent", []),
    ("x" * 200, []),
]


def test_searches_find_what_they_should(found: Callable[[str], list[str]]) -> None:
    assert {q: found(q) for q, _ in CASES} == dict(CASES)


def test_a_text_of_200_characters_is_looked_for_and_one_of_201_refused(server: Server, alice: Person) -> None:
    text = "ß🚀aÉ" * 50
    (post, _) = fill(server, alice, {"text": f"x{text}x"}, {"text": f"x{text[:-1]}x"})
    assert len(text) == 200
    assert listed(alice, f"q={quote(text.upper().replace('SS', 'ß'))}") == [post]
    assert refused(alice, f"q={quote(text)}x") == "q"


def test_a_long_text_is_searched_to_its_end(server: Server, alice: Person) -> None:
    (post,) = fill(server, alice, {"text": "lorem ipsum " * 8000 + "ΤΈΛΟΣ"})
    assert listed(alice, "q=" + quote("ipsum τέλος")) == [post]
    assert listed(alice, "q=" + quote("ος")) == [post]


def test_the_first_comment_and_urls_are_not_searched(server: Server, alice: Person) -> None:
    fill(server, alice, {"text": "post", "first_comment": "comment", "url": "https://example.com/needle"})
    assert listed(alice, "q=comment") == []
    assert listed(alice, "q=needle") == []


def test_a_search_composes_with_filters_whether_few_or_many_are_left(server: Server, alice: Person) -> None:
    rows: list[dict[str, Any]] = [
        {"text": f"launch {step}", "status": "failed" if step % 5 == 0 else "published"} for step in range(50)
    ]
    posts = fill(server, alice, *rows)
    assert listed(alice, "q=LAUNCH&status=failed") == posts[::5][::-1]
    assert listed(alice, "q=launch+1&status=failed") == [posts[15], posts[10]]
    assert listed(alice, "q=launch+1&status=failed&platform=tiktok") == []


def test_a_published_post_is_found_by_its_text(server: Server, alice: Person) -> None:
    answer = alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "Hello Wörld, through the API"})
    (result,) = answer.json()["results"]
    assert listed(alice, "q=" + quote("HELLO WÖRLD")) == [result["postId"]]


# --- The law -----------------------------------------------------------------------------------------------------

_letters = st.sampled_from([*"aAbß%_\"'\\* İıσςΣ", "ﬃ", "日", "🚀", "\u0301", "\ufffd", "\ufffe"])
_text = st.text(_letters | st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_text, q=_text, start=st.integers(0, 11), length=st.integers(1, 12))
@example(text="ß", q="s", start=0, length=1)
def test_a_post_is_found_exactly_when_its_casefolded_text_has_the_casefolded_query(
    server: Server, alice: Person, text: str, q: str, start: int, length: int
) -> None:
    (post,) = fill(server, alice, {"text": text})
    for query in (q, text[start : start + length] or text):
        expected = query.casefold() in text.casefold()
        assert (post in listed(alice, f"limit=200&q={quote(query, safe='')}")) == expected
