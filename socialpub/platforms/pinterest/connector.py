"""Pinterest pins through API v5: a video is uploaded first, then one call creates the pin.

There is no idempotency key: after a lost response the pin is looked up on the board.
"""

from __future__ import annotations

from datetime import UTC, datetime

from socialpub.base.errors import Outcome
from socialpub.base.http import CALL_SECONDS, UPLOAD_SECONDS
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    Board,
    Draft,
    Json,
    OfferedAccount,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import to_id, to_text
from socialpub.platforms.kit.text import normalize_copy
from socialpub.platforms.pinterest.api import build_rule_error, build_unusable_error, call, list_pages
from socialpub.platforms.pinterest.declaration import PLATFORM, REPLIES
from socialpub.platforms.pinterest.media import build_body, build_source, count_bytes, stream, upload_video

__all__ = ["PLATFORM", "REPLIES", "boards", "identify", "prepare", "refresh", "send", "settle"]

_WEB = "https://www.pinterest.com/pin"
_WORDS = ("title", "description", "link", "alt_text")
_SKEW_MS = 120_000  # between Pinterest's clock and ours
_PAGE, _PAGES_MAX = 25, 20
_BOARDS_PAGE, _BOARDS_PAGES_MAX = 250, 20
_STEPS = {
    "image_base64": ("pin", "REGULAR"),
    "image_url": ("fetched", "REGULAR"),
    "multiple_image_base64": ("several", "CAROUSEL"),
    "multiple_image_urls": ("several_fetched", "CAROUSEL"),
    "video_id": ("video", "VIDEO"),
}
"""By kind of media source: the step in REPLIES, and Pinterest's name for such a pin."""


# --- Publish -------------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Upload a video; images are sent with the pin itself."""
    pin = _pin(up, draft)
    if draft.items[0].kind == "image":
        return Ready({"pin": pin, "source": build_source(draft.items)})
    found = upload_video(up, draft, saved)
    if isinstance(found, Pending):
        return found
    return Ready({"pin": pin, "source": {"source_type": "video_id", "media_id": found} | _cover(draft)})


def _pin(up: Upstream, draft: Draft) -> Json:
    board = draft.options.get("boardId") or up.account.extra.get("defaultBoardId")
    if not board:
        raise build_rule_error(up, "board.required", Outcome.REJECTED)
    words = {
        "board_section_id": draft.options.get("boardSectionId"),
        "title": draft.options.get("title"),
        "description": draft.text,
        "link": draft.options.get("destinationUrl"),
        "alt_text": draft.options.get("altText") or draft.items[0].alt_text,
    }
    return {"board_id": board} | {name: text for name, text in words.items() if text}


def _cover(draft: Draft) -> Json:
    """Build a video's cover, which is required: the given one, else its first frame."""
    url = draft.options.get("coverImageUrl")
    return {"cover_image_url": url} if url else {"cover_image_key_frame_time": 0}


def send(up: Upstream, plan: Json) -> Published:
    """Create the pin."""
    source, body = plan["source"], build_body(plan["pin"], plan["source"])
    step = "covered" if "cover_image_url" in source else _STEPS[source["source_type"]][0]
    headers = {"Content-Type": "application/json", "Content-Length": str(count_bytes(body))}
    seconds = UPLOAD_SECONDS if "files" in source else CALL_SECONDS
    reply = call(up, step, "POST", "pins", mutating=True, headers=headers, content=stream(body), timeout=seconds)
    pin = to_id(reply.record().get("id"))
    if not pin:
        raise build_unusable_error(up, step, reply, mutating=True)
    return _to_published(pin)


def _to_published(pin: str) -> Published:
    # The pin's own `link` is its destination, not its address.
    url = f"{_WEB}/{pin}/"
    return Published(pin, url, None, url)


# --- Settle --------------------------------------------------------------------------------------------------------


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Find our pin on the board, by owner, text and time."""
    young, complete = _list_recent(up, plan["pin"], since_ms)
    ours = [pin for pin in young if _is_ours(up, plan, pin)]
    evidence = {"looked": len(young), "alike": len(ours)}
    if not ours:
        return Absent(evidence) if complete else Unknown(evidence)
    # Pins without text are indistinguishable.
    if len(ours) > 1 or not complete or not any(name in plan["pin"] for name in _WORDS):
        return Unknown(evidence)
    return _to_published(to_text(ours[0].get("id")))


def _list_recent(up: Upstream, pin: Json, since_ms: int) -> tuple[list[Json], bool]:
    """List the pins of board or section since then, and whether older ones were reached."""
    section = f"/sections/{pin['board_section_id']}" if "board_section_id" in pin else ""
    found: list[Json] = []
    path = f"boards/{pin['board_id']}{section}/pins"
    for page in list_pages(up, "look", path, {"page_size": str(_PAGE)}, _PAGES_MAX):
        if page is None:
            return found, False
        times = [_created_ms(pin) for pin in page]
        if None in times:  # one of them may be ours
            return found, False
        young = [pin for pin, at in zip(page, times, strict=True) if at is not None and at >= since_ms - _SKEW_MS]
        found += young
        if page and not young:
            break
    return found, True


def _is_ours(up: Upstream, plan: Json, pin: Json) -> bool:
    kind = _STEPS[plan["source"]["source_type"]][1]
    return (
        pin.get("is_owner") is True
        and not pin.get("parent_pin_id")  # saved from another pin
        and (pin.get("creative_type") or kind) == kind
        and all(normalize_copy(pin.get(name)) == normalize_copy(plan["pin"].get(name)) for name in _WORDS)
        and to_text(pin.get("id")) not in up.bound
    )


def _created_ms(pin: Json) -> int | None:
    """Parse the creation time; None if unreadable. Without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(to_text(pin.get("created_at")))
    except ValueError:
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


# --- Connect -------------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """Return the account of a login."""
    reply = call(up, "identify", "GET", "user_account")
    found = reply.record()
    name = to_text(found.get("username"))
    id = to_text(found.get("id")) or name
    if not id:
        raise build_unusable_error(up, "identify", reply)
    shown = to_text(found.get("business_name")) or name or None
    return (OfferedAccount(AccountIdentity(id, shown), up.tokens, to_text(found.get("account_type")).lower()),)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh both tokens; the old refresh token is used up."""
    return oauth.refresh(PLATFORM, up, now_ms)


def boards(up: Upstream) -> tuple[Board, ...]:
    """List the boards the account owns or may pin to; ad-only boards accept no pins."""
    found: list[Board] = []
    for page in list_pages(up, "boards", "boards", {"page_size": str(_BOARDS_PAGE)}, _BOARDS_PAGES_MAX):
        found += [_board(board) for board in page or () if to_id(board.get("id"))]
    return tuple(found)


def _board(board: Json) -> Board:
    privacy = to_text(board.get("privacy")) or "PUBLIC"
    return Board(to_id(board["id"]), to_text(board.get("name")), privacy, board.get("is_ads_only") is not True)
