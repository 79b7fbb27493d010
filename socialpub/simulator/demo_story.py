"""Content of the demo: what a small bakery has posted lately and will post.

It describes only actions of people and platforms; socialpub itself produces all the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DAYS = 12
"""Days before today at which the story begins."""
ASKED_MS = 2 * DAY_MS
"""How long before its time a post is scheduled, by default."""
ENDS_MS = (DAYS + 4) * DAY_MS
"""Lifetime of an authorization that is about to expire today."""
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class StoryTime:
    """Time of day, days from today (UTC), or minutes from now."""

    day: int | None = None
    clock: str = ""
    minutes: int = 0

    def ms(self, now_ms: int) -> int:
        if self.day is None:
            return now_ms + self.minutes * 60_000
        hour, minute = (int(part) for part in self.clock.split(":"))
        return now_ms - now_ms % DAY_MS + self.day * DAY_MS + hour * HOUR_MS + minute * 60_000


def on(day: int, clock: str) -> StoryTime:
    return StoryTime(day, clock)


def minutes(count: int) -> StoryTime:
    return StoryTime(minutes=count)


@dataclass(frozen=True)
class Scene:
    """One publish request, at `when`.

    `faults` apply while it is published; `then` is a later action on it.
    """

    when: StoryTime
    platforms: tuple[str, ...]
    text: str
    picture: Literal["", "bread", "coffee", "evening", "clip"] = ""  # key of `PICTURES`
    at_once: bool = False
    bakery: bool = False
    faults: tuple[dict[str, Any], ...] = ()
    then: Literal["", "cancel", "move"] = ""
    processing_ms: int = 0


@dataclass(frozen=True)
class StoryDraft:
    """Draft that waits now: for more text, or, if `is_proposed`, for an approval."""

    text: str
    platforms: tuple[str, ...]
    when: StoryTime | None = None
    bakery: bool = False
    is_proposed: bool = False


@dataclass(frozen=True)
class Picture:
    """Poster: sky colors, top and bottom, and circles (x, y, radius)."""

    name: str
    alt: str
    colours: tuple[Colour, Colour, Colour]
    circles: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class BakeryAccount:
    """Account of the bakery, and the state of its authorization."""

    platform: str
    name: str
    ends: Literal["", "soon", "revoked"] = ""


PICTURES = (
    Picture(
        "bread",
        "Three round loaves on a board",
        ((247, 225, 190), (222, 160, 92), (124, 72, 34)),
        ((320, 860, 190), (560, 720, 210), (780, 890, 180)),
    ),
    Picture(
        "coffee",
        "A cup of coffee, seen from above",
        ((214, 226, 226), (96, 128, 134), (58, 38, 28)),
        ((540, 675, 300),),
    ),
    Picture(
        "evening",
        "Lamps in the evening",
        ((36, 40, 84), (196, 92, 78), (255, 222, 150)),
        ((220, 360, 60), (450, 300, 75), (700, 380, 55), (900, 290, 65)),
    ),
)
HOOKS: tuple[tuple[int, tuple[str, ...]], ...] = ((204, ()), (503, ("post.failed", "post.rejected")))
"""Webhook receivers: the status that each returns, and its events."""
BAKERY = (
    BakeryAccount("threads", "Nord Bakery"),
    BakeryAccount("linkedin", "Nord Bakery", ends="soon"),
    BakeryAccount("facebook", "Nord Bakery", ends="revoked"),
)

WELCOME = "Good morning! Cardamom buns are out of the oven."
SCENES = (
    Scene(on(-9, "08:30"), ("bluesky", "threads", "twitter"), WELCOME, "bread"),
    Scene(on(-8, "16:00"), ("instagram", "facebook", "pinterest"), "The window seat is yours.", "coffee"),
    Scene(
        on(-7, "09:00"), ("linkedin", "bluesky"), "We are looking for a barista, three days a week. https://example.com"
    ),
    Scene(on(-6, "17:30"), ("bluesky", "twitter"), "Thursday is jazz night. Doors at seven, no tickets needed."),
    Scene(on(-6, "18:00"), ("tiktok", "instagram"), "Six seconds of how we pour.", "clip"),
    Scene(on(-5, "08:30"), ("threads", "facebook"), "New on the board: rye with caraway.", "bread"),
    Scene(on(-4, "10:00"), ("bluesky",), "Closed this Sunday: we repaint the kitchen.", then="cancel"),
    Scene(
        on(-4, "12:00"),
        ("threads", "bluesky"),
        "Lunch today: pea soup, and what is left of the rye.",
        faults=({"fault": "status:503", "platform": "threads", "operation": "*", "times": 1},),
    ),
    Scene(
        on(-3, "09:15"),
        ("threads",),
        "Five things to do with old bread.",
        "bread",
        faults=({"fault": "status:503", "platform": "threads", "operation": "*"},),
    ),
    Scene(on(-3, "11:00"), ("threads",), "The bakery opens at six from now on.", bakery=True),
    Scene(on(-2, "08:30"), ("twitter", "bluesky"), "Good morning! It rains, and it is warm in here.", "coffee"),
    Scene(on(-2, "15:00"), ("twitter",), "Jazz night was full. Thank you all!"),
    Scene(on(-2, "18:00"), ("facebook",), "Order your Saturday loaves until Friday noon.", bakery=True),
    Scene(
        on(-1, "09:30"),
        ("linkedin",),
        "Our barista has started. Say hello to Mira!",
        faults=({"fault": "reset_after", "platform": "linkedin", "operation": "posts.create"},),
    ),
    Scene(
        on(-1, "17:00"),
        ("bluesky", "threads", "facebook", "twitter"),
        "Tonight: candles, soup, and no music at all.",
        "evening",
        at_once=True,
        faults=({"fault": "status:503", "platform": "facebook", "operation": "*"},),
    ),
    Scene(minutes(-50), ("twitter",), "Jazz night was full. Thank you all!", at_once=True),  # fails once
    Scene(minutes(-40), ("bluesky", "threads", "pinterest"), "Friday's soup is lentil.", "coffee", at_once=True),
    Scene(minutes(-2), ("instagram",), "The kitchen, freshly painted.", "clip", at_once=True, processing_ms=180_000),
    Scene(minutes(4), ("bluesky", "twitter"), "Last call for Saturday loaves."),
    Scene(on(1, "08:30"), ("bluesky", "threads", "instagram"), "Saturday loaves are ready to be picked up.", "bread"),
    Scene(on(2, "10:00"), ("facebook",), "Still a few loaves left.", bakery=True),
    Scene(on(2, "17:00"), ("linkedin", "bluesky"), "How we halved our food waste in a year. https://example.com/waste"),
    Scene(on(4, "09:00"), ("pinterest", "instagram"), "A corner to read in.", "evening"),
    Scene(on(5, "12:00"), ("threads", "bluesky", "twitter"), "New lunch menu from today."),
    Scene(on(6, "18:30"), ("bluesky", "facebook", "twitter"), "Thursday is jazz night again.", "evening", then="move"),
    Scene(on(7, "08:30"), ("bluesky", "threads"), "Good morning! Cinnamon today."),
    Scene(on(8, "16:00"), ("threads",), "Rye on Mondays and Thursdays.", bakery=True),
    Scene(on(9, "18:00"), ("tiktok", "instagram"), "Latte art, the slow way.", "clip"),
    Scene(on(12, "09:00"), ("linkedin",), "A year of open books: our numbers."),
)
DRAFTS = (
    StoryDraft("Advent at the café: a new biscuit every day. Which one first?", ("instagram", "facebook")),
    StoryDraft("Order your stollen until Thursday.", ("threads",), on(3, "12:00"), bakery=True, is_proposed=True),
)
SLOTS = tuple({"day": day, "time": time} for day in ("mon", "wed", "fri") for time in ("08:30", "17:00"))
"""Weekly slots of the café."""
