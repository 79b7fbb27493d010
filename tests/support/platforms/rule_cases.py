"""Drafts at and just past the limit of every rule that needs no file contents."""

from __future__ import annotations

from dataclasses import replace

from socialpub.platforms import PLATFORMS
from socialpub.platforms.contract import ConnectorAccount, DraftMedia, RuleContext
from tests.support.platforms.rule_drafts import EIGHT, RuleScene, document, image, images, scene, stored, video

Cases = dict[str, tuple[list[RuleScene], list[RuleScene]]]

FAMILY = "👨\u200d👩\u200d👧\u200d👦"  # one cluster, 25 bytes
LAB = RuleContext("http://127.0.0.1:8080", allow_private_networks=True)
LOOPBACK = RuleContext("https://127.0.0.1")
PLAIN = RuleContext("http://social.example.com")
PAGE = ConnectorAccount("urn:li:organization:12")
PREMIUM = ConnectorAccount("1", extra={"subscriptionType": "Premium"})
FREE = ConnectorAccount("1", extra={"subscriptionType": "None"})
NO_BOARD = ConnectorAccount("77")
BLANK = " \t\r\n\u3000"
PIC, CLIP = image(), video()
CID = "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae"
URI = "at://did:plc:abc/app.bsky.feed.post/3k"


def alt(text: str, item: DraftMedia | None = None) -> RuleScene:
    return scene("Hello", replace(item or image(), alt_text=text))


def option(name: str, value: object, *items: DraftMedia) -> RuleScene:
    return scene("Hello", *items, options={name: value})


def pending(count: int) -> RuleScene:
    return scene("Hello", CLIP, around=RuleContext("https://social.example.com", recent_posts=count))


def verified(item: DraftMedia, around: RuleContext, *prefixes: str) -> RuleScene:
    return scene("Hello", item, around=around, site={"verified_url_prefixes": prefixes})


def text_limit(limit: int, *items: DraftMedia) -> tuple[list[RuleScene], list[RuleScene]]:
    """Clusters at and just past a limit: letters, families, flags, combining marks, CRLF."""
    units = ("a", FAMILY, "🇩🇪", "e\u0301", "\r\n", "\ud800")
    return (
        [scene(unit * limit, *items) for unit in units],
        [scene(unit * (limit + 1), *items) for unit in units],
    )


MIXED = scene("Hello", PIC, CLIP)
NO_TEXT = ([scene("."), scene("", PIC), scene(BLANK, CLIP), scene("\u200b")], [scene(""), scene(BLANK)])
NOT_MIXED = ([scene("", *images(2)), scene("", CLIP), scene("Hello")], [MIXED])
NO_MEDIA = ([scene("", PIC), scene("", CLIP)], [scene("Hello")])
PUBLIC = (
    [
        scene("", PIC),
        scene("", image(url="HTTPS://cdn.example.com/a%20b")),
        scene("", stored()),
        scene("", stored("video", url="https://social.example.com/m/1")),
        scene("", image(url="http://127.0.0.1/a"), stored(), around=LAB),
    ],
    [
        scene("", image(url="http://cdn.example.com/a")),
        scene("", image(url="https://cdn.example.com/ä")),
        scene("", image(url="http://127.0.0.1/ä"), around=LAB),
        *(scene("", stored(), around=around) for around in (LOOPBACK, PLAIN, RuleContext("https://10.0.0.1"))),
        scene("", stored(), around=RuleContext("https://localhost")),
        scene("", stored(), around=RuleContext("")),
    ],
)

CHEAP: Cases = {
    # bluesky
    "bluesky.text.non_empty": ([*NO_TEXT[0], scene("", options={"quoteUri": URI})], NO_TEXT[1]),
    "bluesky.quote.uri": (
        [option("quoteUri", URI), option("quoteUri", "at://bob.example/app.bsky.feed.post/3k")],
        [option("quoteUri", uri) for uri in ("", "https://bsky.app/x", "at://bob.example/app.bsky.graph.list/3k")],
    ),
    "bluesky.threadgate.count_max": (
        [option("threadgate", ["mention"] * 5), scene()],
        [option("threadgate", ["mention"] * 6)],
    ),
    "bluesky.text.max_graphemes": (
        [scene(unit * 300) for unit in ("a", "🇩🇪", "e\u0301", "\r\n")] + [scene(FAMILY * 120)],
        [scene(unit * 301) for unit in ("a", "🇩🇪", "e\u0301", "\r\n", FAMILY)],
    ),
    "bluesky.text.max_bytes": (
        [scene(FAMILY * 120), scene("日" * 300)],
        [scene("é" * 1500 + "a"), scene("\ud800" * 1000 + "a")],
    ),
    "bluesky.first_comment.non_empty": ([scene(comment="."), scene()], [scene(comment=""), scene(comment=BLANK)]),
    "bluesky.first_comment.max_graphemes": ([scene(comment="a" * 300)], [scene(comment="a" * 301)]),
    "bluesky.first_comment.max_bytes": ([scene(comment=FAMILY * 120)], [scene(comment=FAMILY * 120 + "a")]),
    "bluesky.langs.count_max": (
        [option("langs", ["en", "de", "fr"]), option("langs", [])],
        [option("langs", ["en", "de", "fr", "it"])],
    ),
    "bluesky.langs.format": (
        [option("langs", ["en", "de-AT", "zh-Hant-TW"])],
        [option("langs", ["english language"]), option("langs", [""]), option("langs", ["en_US"])],
    ),
    "bluesky.reply.refs": (
        [scene(options={"replyToUri": URI, "replyToCid": CID, "replyRootUri": URI, "replyRootCid": CID})],
        [
            scene(options={"replyToUri": "https://bsky.app/x", "replyToCid": CID}),
            scene(options={"replyToUri": URI, "replyToCid": "x"}),
            scene(options={"replyToUri": URI, "replyToCid": CID, "replyRootUri": "at:", "replyRootCid": CID}),
            scene(options={"replyToUri": URI, "replyToCid": CID, "replyRootUri": URI, "replyRootCid": ""}),
        ],
    ),
    "bluesky.media.image_video_exclusive": NOT_MIXED,
    "bluesky.media.count_max": (
        [scene("", *images(4)), scene("", CLIP), scene("", *images(10), site={"gallery": True})],
        [scene("", *images(5)), scene("", CLIP, CLIP), scene("", *images(11), site={"gallery": True})],
    ),
    "bluesky.media.alt_text_max_graphemes": (
        [alt(FAMILY * 2000), alt("a" * 1000, CLIP)],
        [alt("a" * 2001), alt("a" * 1001, CLIP)],
    ),
    "bluesky.hashtag.max_graphemes": ([scene("#" + "a" * 64)], [scene("#" + "a" * 65)]),
    # facebook
    "facebook.text.required": (
        [scene("."), scene(BLANK, PIC), scene("", options={"link": "https://a.example"})],
        [scene(""), scene(BLANK)],
    ),
    "facebook.text.max_graphemes": text_limit(63_206),
    "facebook.link.http": (
        [option("link", "https://a.example/x"), option("link", "HTTP://a.example"), scene()],
        [option("link", "ftp://a.example/x"), option("link", "https://"), option("link", "https://[")],
    ),
    "facebook.media.image_video_exclusive": NOT_MIXED,
    "facebook.media.count_max": ([scene("", CLIP), scene("", *images(12))], [scene("", CLIP, CLIP)]),
    "facebook.media.count_advised": ([scene("", *images(10))], [scene("", *images(11))]),
    "facebook.story.media_count": (
        [option("story", True, PIC), option("story", True, CLIP), option("story", False), scene("", *images(2))],
        [option("story", True), option("story", True, *images(2)), option("story", True, PIC, CLIP)],
    ),
    # instagram
    "instagram.media.required": NO_MEDIA,
    "instagram.text.max_graphemes": text_limit(2_200, PIC),
    "instagram.text.hashtag_max": (
        [scene("#a " * 30, PIC), scene("#a " * 30 + "#1 #22 x#y &#39;", PIC)],
        [scene("#a " * 31, PIC), scene("#ä " * 30 + "(#1x)", PIC)],
    ),
    "instagram.text.hashtag_advised": (
        [scene("#a " * 5, PIC), scene("#a " * 9, PIC, site={"hashtags_advised": 9})],
        [scene("#a " * 6, PIC), scene("#a", PIC, site={"hashtags_advised": 0})],
    ),
    "instagram.text.mention_max": (
        [scene("@a.b " * 20 + "me@example.com @ @@", PIC)],
        [scene("@a.b " * 21, PIC)],
    ),
    "instagram.media.count_max": ([scene("", *images(9), CLIP)], [scene("", *images(10), CLIP)]),
    "instagram.media.alt_text_max_graphemes": (
        [alt(FAMILY * 1000), alt("a" * 1001, CLIP)],
        [alt("a" * 1001)],
    ),
    "instagram.media.url_public": PUBLIC,
    "instagram.cover_image_url.http": (
        [option("coverUrl", "https://a.example/c.jpg", CLIP), scene("", CLIP)],
        [
            option("coverUrl", "http://a.example/c.jpg", CLIP),
            option("coverUrl", "https://a.example/ü.jpg", CLIP),
            option("coverUrl", "https://", CLIP),
        ],
    ),
    "instagram.story.media_count": (
        [option("story", True, PIC), option("story", False, PIC, CLIP), scene("", PIC, CLIP)],
        [option("story", True, PIC, CLIP)],
    ),
    "instagram.collaborators.count_max": (
        [option("collaborators", ["a", "b", "c"], PIC), scene("", PIC)],
        [option("collaborators", ["a", "b", "c", "d"], PIC)],
    ),
    # linkedin
    "linkedin.text.non_empty": NO_TEXT,
    "linkedin.text.max_graphemes": (
        [scene("a" * 3000), scene("(" * 1500), scene("#a" * 1 + "b" * 2998), scene(FAMILY * 3000)],
        [scene("a" * 3001), scene("(" * 1500 + "a"), scene("# " + "b" * 2998)],
    ),
    "linkedin.author.urn_format": (
        [scene(), scene(account=PAGE)],
        [
            scene(account=ConnectorAccount("12")),
            scene(account=ConnectorAccount("urn:li:member:1")),
            scene(account=ConnectorAccount("urn:li:person:")),
        ],
    ),
    "linkedin.visibility.enum": (
        [
            option("visibility", "CONNECTIONS"),
            scene(account=PAGE),
            scene(account=PAGE, options={"visibility": "PUBLIC"}),
        ],
        [scene(account=PAGE, options={"visibility": "CONNECTIONS"})],
    ),
    "linkedin.media.image_video_exclusive": NOT_MIXED,
    "linkedin.media.no_mixing": (
        [scene("", document()), scene("", *images(2)), scene("", CLIP)],
        [scene("", document(), PIC), scene("", CLIP, document()), scene("", document(), document())],
    ),
    "linkedin.document.title_required": (
        [option("documentTitle", "Menu", document()), scene("Hello", PIC), scene()],
        [scene("", document()), option("documentTitle", BLANK, document())],
    ),
    "linkedin.document.title_max_graphemes": (
        [option("documentTitle", "é" * 400, document()), option("documentTitle", "a" * 401)],
        [option("documentTitle", "a" * 401, document())],
    ),
    "linkedin.media.count_max": (
        [scene("", *images(20)), scene("", CLIP)],
        [scene("", *images(21)), scene("", CLIP, CLIP)],
    ),
    "linkedin.media.alt_text_max_graphemes": ([alt("a" * 4086), alt("a" * 4087, CLIP)], [alt("a" * 4087)]),
    # pinterest
    "pinterest.board.required": (
        [scene("", PIC), scene("", PIC, account=NO_BOARD, options={"boardId": "1"})],
        [
            scene("", PIC, account=NO_BOARD),
            scene("", PIC, account=ConnectorAccount("77", extra={"defaultBoardId": None})),
        ],
    ),
    "pinterest.board.format": (
        [option("boardId", "0123456789", PIC), scene("", PIC)],
        [option("boardId", "", PIC), option("boardId", "12a", PIC), option("boardId", "١٢", PIC)],
    ),
    "pinterest.media.required": NO_MEDIA,
    "pinterest.media.image_video_exclusive": NOT_MIXED,
    "pinterest.media.count_max": (
        [scene("", *images(5)), scene("", CLIP)],
        [scene("", *images(6)), scene("", CLIP, CLIP)],
    ),
    "pinterest.text.max_graphemes": text_limit(800, PIC),
    "pinterest.text.graphemes_advised": text_limit(500, PIC),
    "pinterest.title.max_graphemes": (
        [option("title", FAMILY * 100, PIC), scene("", PIC)],
        [option("title", "a" * 101, PIC)],
    ),
    "pinterest.destination_url.http": (
        [option("destinationUrl", "http://a.example", PIC)],
        [
            option("destinationUrl", url, PIC)
            for url in ("a.example", "", "https://a b", "https://a\n.example", "http://a:99999", "javascript:x", "//a")
        ],
    ),
    "pinterest.destination_url.max_chars": (
        [option("destinationUrl", "https://a.example/" + "a" * 2030, PIC)],
        [option("destinationUrl", "https://a.example/" + "a" * 2031, PIC)],
    ),
    "pinterest.cover_image_url.http": (
        [option("coverImageUrl", "http://a.example/c.jpg", CLIP)],
        [option("coverImageUrl", "ftp://a.example/c.jpg", CLIP)],
    ),
    "pinterest.media.alt_text_max_graphemes": (
        [alt("a" * 500), alt("a" * 500, CLIP), scene("", PIC, image(alt="a" * 501)), option("altText", "a" * 500, PIC)],
        [alt("a" * 501), alt("a" * 501, CLIP), option("altText", "a" * 501, PIC)],
    ),
    # tiktok
    "tiktok.media.required": NO_MEDIA,
    "tiktok.media.image_video_exclusive": NOT_MIXED,
    "tiktok.media.count_max": (
        [scene("", *images(35)), scene("", CLIP)],
        [scene("", *images(36)), scene("", CLIP, CLIP)],
    ),
    "tiktok.text.max_chars": (
        [scene("a" * 4000, PIC), scene("🎉" * 2000, PIC), scene("a" * 4001, CLIP)],
        [scene("a" * 4001, PIC), scene("🎉" * 2000 + "a", PIC)],
    ),
    "tiktok.title.max_chars": (
        [option("title", "🎉" * 45, PIC), option("title", "a" * 91, CLIP)],
        [option("title", "a" * 91, PIC), option("title", "🎉" * 45 + "a", PIC)],
    ),
    "tiktok.photo.url_verified": (
        [
            scene("", PIC),
            scene("", stored()),
            scene("", stored(), around=LAB),
            scene("", video(url="http://a.example/v")),
            verified(
                image(url="https://cdn.example.com/tt/a"), LAB, "https://x.example/", "https://cdn.example.com/tt/"
            ),
            verified(stored(), RuleContext("https://social.example.com"), "https://social.example.com/v1/"),
            verified(stored(url="https://social.example.com/m/1"), RuleContext(), "https://social.example.com/m/"),
        ],
        [
            scene("", image(url="http://cdn.example.com/a")),
            scene("", stored(), around=PLAIN),
            verified(image(url="https://cdn.example.com/a"), RuleContext(), "https://cdn.example.com/tt/"),
            verified(stored(), RuleContext("https://social.example"), "https://social.example.com/"),
            verified(stored(url="https://social.example.com/m/1"), RuleContext(), "https://social.example.com/v1/"),
        ],
    ),
    "tiktok.text.chars_advised": (
        [scene("a" * 2200, CLIP), scene("a" * 2201, PIC)],
        [scene("a" * 2201, CLIP)],
    ),
    "tiktok.inbox.pending_limit": ([pending(0), pending(4)], [pending(5), pending(6)]),
    # twitter
    "twitter.text.non_empty": NO_TEXT,
    "twitter.text.max_graphemes": (
        [
            scene("a" * 280),
            scene("日" * 140),
            scene(FAMILY * 140),
            scene("a" * 256 + " https://example.com/" + "b" * 100),
            scene("a" * 25_000, account=PREMIUM),
        ],
        [
            scene("a" * 281),
            scene("日" * 140 + "a"),
            scene(FAMILY * 140 + "a"),
            scene("a" * 257 + " https://example.com/"),
            scene("a" * 281, account=FREE),
            scene("a" * 25_001, account=PREMIUM),
        ],
    ),
    "twitter.text.cashtag_max": ([scene("$AAPL at $5 and a$B")], [scene("$AAPL and $MSFT"), scene("$A $A")]),
    "twitter.text.invalid_characters": (
        [scene("a\ufffd")],
        [scene("a\ufeff"), scene("a\ufffe"), scene("\uffffa")],
    ),
    "twitter.text.url_surcharge": (
        [scene("me@example.com a.b e.g.this"), scene("")],
        [scene("see example.com"), scene("https://a.co/x")],
    ),
    "twitter.media.image_video_exclusive": NOT_MIXED,
    "twitter.media.count_max": (
        [scene("", *images(4)), scene("", CLIP)],
        [scene("", *images(5)), scene("", CLIP, CLIP)],
    ),
    "twitter.media.alt_text_max_graphemes": ([alt("a" * 1000), alt("a" * 1001, CLIP)], [alt("a" * 1001)]),
    **{
        f"{name}.media.document_unsupported": (
            [scene("", PIC), scene("", CLIP), scene()],
            [scene("", document()), scene("", PIC, document())],
        )
        for name in EIGHT
        if name != "linkedin"
    },
    **{
        f"{name}.thread.unsupported": ([scene()], [scene(pieces=1), scene(pieces=24)])
        for name in EIGHT
        if PLATFORMS[name].thread is None
    },
}
