"""Text search of GET /v1/posts: substrings in any case and Unicode normalization form."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from socialpub.platforms.kit.text import split_clusters
from socialpub.store.casefold import fold
from tests.support.app_server import AppServer, Person
from tests.support.post_list import insert_rows, list_posts, refused_query

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
    "decomposed": "cafe\u0301 cre\u0300me",
    "wide": "Ｆｕｌｌ　Ｗｉｄｔｈ ｶﾞｷﾞ",
    "persian": "می\u200cخواهم",
    "tatweel": "مـــرحبا",
    "presentation": "\ufefb",
    "seoul": "서울에서 ㅋㅋㅠㅠ",
    "heart": "I \u2764\ufe0f it",
    "hyphens": "Donau\u00addampf",
    "vietnamese": "Tiếng Việt",
    "control": "tab\there\u0001and \ufffdthere",
}


@pytest.fixture
def found(server: AppServer, alice: Person) -> Callable[[str], list[str]]:
    """The names of the texts that a search finds."""
    ids = dict(zip(insert_rows(server, alice, *[{"text": text} for text in TEXTS.values()]), TEXTS, strict=True))

    def search(q: str) -> list[str]:
        return sorted(ids[post] for post in list_posts(alice, f"q={quote(q, safe='')}"))

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
    ("café", ["cafe", "decomposed"]),
    ("CAFÉ", ["cafe", "decomposed"]),
    ("cafe\u0301", ["cafe", "decomposed"]),
    ("cafe", []),
    ("CRÈME", ["decomposed"]),
    ("full width", ["wide"]),
    ("ガギ", ["wide"]),
    ("か", []),
    ("میخواهم", ["persian"]),
    ("می\u200cخو", ["persian"]),
    ("مرحبا", ["tatweel"]),
    ("مـرحـبا", ["tatweel"]),
    ("لا", ["presentation"]),
    ("서울", ["seoul"]),
    ("\u1109\u1165\u110b\u116e\u11af", ["seoul"]),
    ("ㅠㅠ", ["seoul"]),
    ("ㅋㅋ", ["seoul"]),
    ("i \u2764 it", ["heart"]),
    ("donaudampf", ["hyphens"]),
    ("TIE\u0302\u0301NG VIE\u0323\u0302T", ["vietnamese"]),
    ("\u200d", []),  # nothing of it can be seen
    ("STRASSE", ["street"]),
    ("straße", ["street"]),
    ("ß", ["street"]),
    ("ss", ["street"]),
    ("SSE", ["street"]),
    ("ẞ", ["street"]),
    ("İstanbul", ["istanbul", "istanbul2"]),
    ("i̇stanbul", ["istanbul", "istanbul2"]),
    ("istanbul", ["istanbul", "istanbul2"]),
    ("ISTANBUL", ["istanbul", "istanbul2"]),
    ("ısparta", ["istanbul2"]),
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


@pytest.mark.slow
def test_searches_find_what_they_should(found: Callable[[str], list[str]]) -> None:
    assert {q: found(q) for q, _ in CASES} == dict(CASES)


def test_a_text_of_200_characters_is_looked_for_and_one_of_201_refused(server: AppServer, alice: Person) -> None:
    text = "ß🚀aÉ" * 50
    (post, _) = insert_rows(server, alice, {"text": f"x{text}x"}, {"text": f"x{text[:-1]}x"})
    assert len(text) == 200
    assert list_posts(alice, f"q={quote(text.upper().replace('SS', 'ß'))}") == [post]
    assert refused_query(alice, f"q={quote(text)}x") == "q"


def test_a_long_text_is_searched_to_its_end(server: AppServer, alice: Person) -> None:
    (post,) = insert_rows(server, alice, {"text": "lorem ipsum " * 8000 + "ΤΈΛΟΣ"})
    assert list_posts(alice, "q=" + quote("ipsum τέλος")) == [post]
    assert list_posts(alice, "q=" + quote("ος")) == [post]


def test_the_first_comment_and_urls_are_not_searched(server: AppServer, alice: Person) -> None:
    insert_rows(server, alice, {"text": "post", "first_comment": "comment", "url": "https://example.com/needle"})
    assert list_posts(alice, "q=comment") == []
    assert list_posts(alice, "q=needle") == []


def test_a_search_composes_with_filters_whether_few_or_many_are_left(server: AppServer, alice: Person) -> None:
    rows: list[dict[str, Any]] = [
        {"text": f"launch {step}", "status": "failed" if step % 5 == 0 else "published"} for step in range(50)
    ]
    posts = insert_rows(server, alice, *rows)
    assert list_posts(alice, "q=LAUNCH&status=failed") == posts[::5][::-1]
    assert list_posts(alice, "q=launch+1&status=failed") == [posts[15], posts[10]]
    assert list_posts(alice, "q=launch+1&status=failed&platform=tiktok") == []


def test_a_published_post_is_found_by_its_text(server: AppServer, alice: Person) -> None:
    answer = alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "Hello Wörld, through the API"})
    (result,) = answer.json()["results"]
    assert list_posts(alice, "q=" + quote("HELLO WÖRLD")) == [result["postId"]]


# --- The law -----------------------------------------------------------------------------------------------------

_letters = st.sampled_from([*"aAbß%_\"'\\* İıσςΣ", "ﬃ", "日", "🚀", "\u0301", "\ufffd", "\ufffe"])
_text = st.text(_letters | st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_text, q=_text, start=st.integers(0, 11), length=st.integers(1, 12))
@example(text="ß", q="s", start=0, length=1)
def test_post_is_found_exactly_when_its_folded_text_has_the_query(
    server: AppServer, alice: Person, text: str, q: str, start: int, length: int
) -> None:
    (post,) = insert_rows(server, alice, {"text": text})
    for query in (q, text[start : start + length] or text):
        expected = fold(query) in fold(text)
        assert (post in list_posts(alice, f"limit=200&q={quote(query, safe='')}")) == expected


# --- Normalization forms -----------------------------------------------------------------------------------------

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
WORDS = (
    *("Straße Ångström naïve ﬁne oﬃce Œuvre ½ №5 ™", "Ελλάδα Όμηρος ΐ ᾳ ᾼ", "Ёлка Йод Київ", "İstanbul ISPARTA ığdır"),
    *("שָׁלוֹם עולם", "مُحَمَّد مرحبا ﷺ ﻻ", "می‌خواهم", "हिन्दी क़लम ज़रा", "বাংলা কো", "ਪੰਜਾਬੀ ਸ਼", "தமிழ் கொ", "ಕನ್ನಡ ಕೋ", "മലയാളം കൊ"),
    *(
        "සිංහල කො",
        "ไทย น้ำ",
        "မြန်မာ ဦး",
        "བོད་ཡིག",
        "ខ្មែរ",
        "한국어 서울 ㅋㅋㅠㅠ ㄱㅏ",
        "日本語 がぎ ｶﾞﾊﾟ ㍿",
        "Ｆｕｌｌ　Ｗｉｄｔｈ",
        "Tiếng Việt",
    ),
    *("👩‍👩‍👧 🇺🇳 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "ꮳꮃꭹ ᏣᎳᎩ", "ǆ ǅ Ǆ", "a\u0316\u0301\u0327"),
)
_characters = [character for text in WORDS for character in split_clusters(text)]
_form = st.sampled_from(FORMS)


@settings(max_examples=100, deadline=None)
@given(
    characters=st.lists(st.sampled_from(_characters), min_size=1, max_size=12),
    part=st.tuples(st.integers(0, 11), st.integers(1, 12)),
    forms=st.tuples(_form, _form),
    case=st.sampled_from([str, str.upper, str.lower, str.title]),
)
def test_any_form_of_a_text_has_any_form_of_its_parts(
    characters: list[str], part: tuple[int, int], forms: tuple[str, str], case: Callable[[str], str]
) -> None:
    start, length = part[0] % len(characters), part[1]
    text = unicodedata.normalize(forms[0], "".join(characters))
    query = unicodedata.normalize(forms[1], case("".join(characters[start : start + length])))
    assert fold(query) in fold(text)


@pytest.mark.slow
def test_every_letter_has_one_fold_in_every_form_and_case() -> None:
    for number in range(0x110000):
        letter = chr(number)
        if unicodedata.category(letter) in ("Cn", "Co", "Cs") or letter.isascii():
            continue
        if not unicodedata.decomposition(letter) and letter.casefold() == letter == letter.upper():
            continue
        ways = {fold(unicodedata.normalize(form, letter)) for form in FORMS}
        ways |= {fold(case(letter)) for case in (str.upper, str.lower, str.title, str.casefold, fold)}
        assert ways == {fold(letter)}, (hex(number), ways)


@pytest.mark.slow
def test_a_search_finds_every_word_in_every_form(server: AppServer, alice: Person) -> None:
    stored = [unicodedata.normalize(form, word) for word in WORDS for form in FORMS]
    posts = insert_rows(server, alice, *[{"text": text} for text in stored])
    for place, word in enumerate(WORDS):
        of_word = set(posts[place * len(FORMS) : (place + 1) * len(FORMS)])
        for form in FORMS:
            query = quote(unicodedata.normalize(form, word.upper()), safe="")
            assert of_word <= set(list_posts(alice, f"limit=200&q={query}")), (word, form)
