"""Facets of Bluesky posts: links, mentions, tags, byte offsets, and the link card's URL."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from socialpub.platforms.bluesky.text import build_facets, find_first_link, find_spans, find_tags, is_valid_tag
from tests.support.platforms.bluesky_calls import BOB, DID

KNOWN = {"alice.test": DID, "bob.bsky.social": BOB}
LINK = "app.bsky.richtext.facet#link"
MENTION = "app.bsky.richtext.facet#mention"
TAG = "app.bsky.richtext.facet#tag"


def found(text: str) -> list[tuple[str, str]]:
    """(the text under each facet, what it points to)."""
    raw = text.encode()
    made = build_facets(text, KNOWN.get)
    return [
        (
            raw[facet["index"]["byteStart"] : facet["index"]["byteEnd"]].decode(),
            next(value for name, value in facet["features"][0].items() if name != "$type"),
        )
        for facet in made
    ]


LINKS = [
    ("see https://example.com now", "https://example.com"),
    ("https://example.com", "https://example.com"),
    ("HTTPS://Example.com/A", "HTTPS://Example.com/A"),
    ("http://example.com/a?b=c&d=%20#e", "http://example.com/a?b=c&d=%20#e"),
    ("(https://example.com)", "https://example.com"),
    ("(https://example.com/a).", "https://example.com/a"),
    ("https://en.wikipedia.org/wiki/A_(b)", "https://en.wikipedia.org/wiki/A_(b)"),
    ("(https://en.wikipedia.org/wiki/A_(b))", "https://en.wikipedia.org/wiki/A_(b)"),
    ("https://example.com/a, and", "https://example.com/a"),
    ("https://example.com/a! so", "https://example.com/a"),
    ("https://example.com...", "https://example.com"),
    ("https://example.com/a?", "https://example.com/a"),
    ("日本 https://example.com/路。", "https://example.com/路"),
    ("हिन्दी https://example.com/a।", "https://example.com/a"),
    ("العربية https://example.com/a؟", "https://example.com/a"),
    ("ខ្មែរ https://example.com/a។”", "https://example.com/a"),
    ("https://example.com\ufeffx", "https://example.com"),
    ("https://localhost:8080/a", "https://localhost:8080/a"),
    ("line\nhttps://example.com\nline", "https://example.com"),
]


@pytest.mark.parametrize(("text", "uri"), LINKS)
def test_it_links_an_address(text: str, uri: str) -> None:
    assert found(text) == [(uri, uri)]


BARE = [
    ("see example.com now", "example.com"),
    ("example.com/a.b?c#d.", "example.com/a.b?c#d"),
    ("my-site.co.uk!", "my-site.co.uk"),
    ("(example.com)", "example.com"),
    ("example.com:8080/a", "example.com:8080/a"),
    ("Example.COM", "Example.COM"),
]


@pytest.mark.parametrize(("text", "shown"), BARE)
def test_it_links_a_bare_domain_as_https(text: str, shown: str) -> None:
    assert found(text) == [(shown, f"https://{shown}")]


@pytest.mark.parametrize(
    "text",
    [
        "e.g. this",
        "node.js is fine",
        "end.Begin",
        "a@example.com",
        "xhttps://example.com",
        "https://",
        "https://...",
        "https:///a",
        "http://[",
        "example.com@evil",
        "one.co.uk@evil",
        "ftp://example.com",
        "1.2.3",
        "",
    ],
)
def test_it_leaves_what_is_no_address(text: str) -> None:
    assert found(text) == []


MENTIONS = [
    ("@alice.test", "@alice.test", DID),
    ("hi @alice.test!", "@alice.test", DID),
    ("(@bob.bsky.social)", "@bob.bsky.social", BOB),
    ("@Alice.Test.", "@Alice.Test", DID),
    ("@alice.testさん", "@alice.test", DID),
    ("👨‍👩‍👧 @alice.test's", "@alice.test", DID),
    ("@alice.test@x.org", "@alice.test", DID),
    ("@bob.bsky.social@x", "@bob.bsky.social", BOB),
    ("@bob.bsky.social-", "@bob.bsky.social", BOB),
]


@pytest.mark.parametrize(("text", "shown", "did"), MENTIONS)
def test_it_mentions_an_account_that_resolves(text: str, shown: str, did: str) -> None:
    assert found(text) == [(shown, did)]


@pytest.mark.parametrize(
    "text",
    [
        "@nobody.test",
        "@alice",
        "x@alice.test",
        "@alice.test_x",
        "@ alice.test",
        "@.test",
    ],
)
def test_it_leaves_a_mention_that_does_not_resolve(text: str) -> None:
    assert found(text) == []


TAGS = [
    ("#Tag", "#Tag", "Tag"),
    ("a #tag.", "#tag", "tag"),
    ("a #tag, b", "#tag", "tag"),
    ("#tag-one_two!", "#tag-one_two", "tag-one_two"),
    ("＃全角", "＃全角", "全角"),
    ("#café", "#café", "café"),
    ("#cafe\u0301s", "#cafe\u0301s", "cafe\u0301s"),
    ("#1a", "#1a", "1a"),
    ("#👍", "#👍", "👍"),
    ("##double", "##double", "#double"),
    ("#a\u200bb", "#a", "a"),
    ("#happy👩\u200d💻", "#happy👩", "happy👩"),
    ("#so*\ufe0f\u20e3", "#so*\ufe0f\u20e3", "so*\ufe0f\u20e3"),
    ("#می\u200cخواهم", "#می", "می"),
    ("#نان\u200cها.", "#نان", "نان"),
    ("#क्\u200dष", "#क्", "क्"),
    ("#ශ්\u200dරී", "#ශ්", "ශ්"),
    ("#അവന്\u200d", "#അവന്", "അവന്"),
    ("＃రొట్టె।", "＃రొట్టె", "రొట్టె"),
    ("#١٢٣؟", "#١٢٣", "١٢٣"),
    ("\ufeff#tag", "#tag", "tag"),
    ("#tag\ufeffx", "#tag", "tag"),
    ("$TSLA", "$TSLA", "$TSLA"),
    ("buy ($tsla)", "$tsla", "$TSLA"),
    ("$a, $", "$a", "$A"),
]


@pytest.mark.parametrize(("text", "shown", "tag"), TAGS)
def test_it_tags(text: str, shown: str, tag: str) -> None:
    assert found(text) == [(shown, tag)]


@pytest.mark.parametrize(
    "text",
    ["#", "# a", "#1", "#123!", "#!?", "a#b", "(#a)", "#\ufe0f\u20e3", "$100", "$toolong", "$a1b2c3", "x$A", "$"],
)
def test_it_leaves_what_is_no_tag(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(("length", "tagged"), [(64, True), (65, False)])
def test_a_tag_has_at_most_64_graphemes(length: int, tagged: bool) -> None:
    assert bool(found("#" + "e\u0301" * length)) is tagged


def test_a_tag_has_at_most_640_bytes() -> None:
    family = "👨‍👩‍👧‍👦"  # one grapheme, 25 bytes: no tag can hold its joiners, so combining marks make it heavy
    heavy = "e" + "\u0301" * 9  # one grapheme, 19 bytes
    assert is_valid_tag(heavy * 33)
    assert not is_valid_tag(heavy * 34)
    assert len(family.encode()) == 25


def test_offsets_count_bytes_behind_emoji() -> None:
    text = "👨‍👩‍👧 é #x https://example.com"
    assert [facet["index"] for facet in build_facets(text, KNOWN.get)] == [
        {"byteStart": 22, "byteEnd": 24},
        {"byteStart": 25, "byteEnd": 44},
    ]


def test_each_kind_has_its_feature() -> None:
    text = "https://example.com @alice.test #a"
    assert [facet["features"] for facet in build_facets(text, KNOWN.get)] == [
        [{"$type": LINK, "uri": "https://example.com"}],
        [{"$type": MENTION, "did": DID}],
        [{"$type": TAG, "tag": "a"}],
    ]


def test_a_link_wins_over_what_stands_in_it() -> None:
    assert found("https://example.com/(@alice.test/#x") == [("https://example.com/(@alice.test/#x",) * 2]


def test_a_handle_is_looked_up_in_lower_case() -> None:
    asked: list[str] = []
    build_facets("@Alice.Test @BOB.bsky.social", lambda handle: asked.append(handle))
    assert asked == ["alice.test", "bob.bsky.social"]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("no link", None),
        ("#a @alice.test", None),
        ("example.org then https://example.com", "https://example.org"),
        ("https://a.example https://b.example", "https://a.example"),
    ],
)
def test_the_first_link_is_the_cards(text: str, url: str | None) -> None:
    assert find_first_link(text) == url


def test_overlong_tags_are_found_for_the_warning() -> None:
    assert [span.value for span in find_tags("#" + "a" * 65 + " #b")] == ["a" * 65, "b"]


PIECES = st.one_of(
    st.sampled_from(
        ["https://example.com/a_(b)", "example.org", "@alice.test", "#tag", "＃x", "$AB", "(", ")", ".", "@", "#", "$"]
    ),
    st.sampled_from([" ", "\n", "👨‍👩‍👧", "e\u0301", "日本", "\u200d", "\ufeff", "\x85", "://"]),
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=6),
)
TEXTS = st.lists(PIECES, max_size=20).map("".join)


@given(TEXTS)
def test_facets_are_ordered_disjoint_and_on_character_boundaries(text: str) -> None:
    raw, last = text.encode(), 0
    for facet in build_facets(text, lambda _: DID):
        start, end = facet["index"]["byteStart"], facet["index"]["byteEnd"]
        assert last <= start < end <= len(raw)
        assert raw[start:end].decode().encode() == raw[start:end]
        last = end


@given(TEXTS)
def test_every_link_has_the_form_that_a_server_accepts(text: str) -> None:
    # The lexicon's format "uri" (atproto lexicon, format validation): a scheme, then no white space at all.
    for span in find_spans(text):
        if span.kind == "link":
            assert regex.fullmatch(r"\w+:(?://)?[^\s/\ufeff][^\s\ufeff]*", span.value)
