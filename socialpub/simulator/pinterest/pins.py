"""Pins: validation (github.com/pinterest/api-description v5, PinCreate) and lists."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.ledger import Publication, PublishedMedia
from socialpub.simulator.pinterest.api import People, Person, instant, page, refuse
from socialpub.simulator.pinterest.boards import Boards
from socialpub.simulator.pinterest.media import Media
from socialpub.simulator.state import SimulatorState

WEB = "https://www.pinterest.com/pin"
_ALL = ("boards:read", "boards:write", "pins:read", "pins:write")
_MAXIMA = {"title": 100, "description": 800, "link": 2048, "alt_text": 500}
_INLINE, _FETCHED = ("image/jpeg", "image/png"), ("image/jpeg", "image/png", "image/webp", "image/gif")
_TYPES = {"image": "REGULAR", "multiple_images": "CAROUSEL", "video": "VIDEO"}
_TRIAL = (
    "Apps with Trial access may not create Pins in production https://api.pinterest.com - use API Sandbox "
    "https://api-sandbox.pinterest.com"
)


@dataclass
class Pin:
    account: str
    board: str
    at_ms: int
    node: dict[str, Any]


@dataclass
class Pins:
    """All pins. `trial`: the app may only read; `carousels`: several images are accepted.

    `covers`: a video frame is accepted as cover.
    """

    lab: SimulatorState
    people: People
    boards: Boards
    media: Media
    by_id: dict[str, Pin] = field(default_factory=dict)
    trial: bool = False
    carousels: bool = True
    covers: bool = True
    spammy: bool = False
    _count: int = 0

    def reads(self) -> tuple[Operation, ...]:
        return (
            Operation("pins.list", ("GET",), "/v5/pins", self.list),
            Operation("pins.get", ("GET",), "/v5/pins/<pin>", self.get),
            Operation("boards.list_pins", ("GET",), "/v5/boards/<board>/pins", self.of_board),
            Operation("sections.list_pins", ("GET",), "/v5/boards/<board>/sections/<section>/pins", self.of_section),
        )

    def writes(self) -> tuple[Operation, ...]:
        return (
            Operation("pins.create", ("POST",), "/v5/pins", self.create, _pulls),
            Operation("pins.delete", ("DELETE",), "/v5/pins/<pin>", self.delete),
        )

    def reset(self) -> None:
        self.by_id.clear()
        self.trial, self.carousels, self.covers, self.spammy = False, True, True, False

    # --- Writing ---

    def create(self, call: Call) -> FakeResponse:
        """Publish a pin."""
        person = self.people.caller(call, *_ALL)
        if self.trial:
            raise refuse(403, 29, _TRIAL)
        if self.spammy:
            raise refuse(429, 8, "Too many requests.", message_detail="This account was blocked because of spam.")
        asked = _checked(call)
        board = self.boards.writable(asked["board_id"], person)
        if asked.get("board_section_id") is not None:
            self.boards.check_section(board, str(asked["board_section_id"]))
        kind, media = self._media(call, asked["media_source"], person)
        pin = self._new(person, board.id, asked, kind)
        shown = tuple(PublishedMedia(each.sha256, each.size, each.type, asked.get("alt_text")) for each in media[:1])
        request = {name: value for name, value in asked.items() if name != "media_source"}
        request["source_type"] = asked["media_source"]["source_type"]
        url, text = f"{WEB}/{pin['id']}/", asked.get("description") or ""
        self.lab.ledger.write(
            Publication("pinterest", person.id, "post", pin["id"], url, text, (*shown, *media[1:]), request)
        )
        return FakeResponse(201, self._shown(self.by_id[pin["id"]], person))

    def delete(self, call: Call) -> FakeResponse:
        person = self.people.caller(call, *_ALL)
        pin = self._find(call, person)
        if pin.account != person.id:
            raise refuse(401, 7, "You are not permitted to access that resource.")
        del self.by_id[pin.node["id"]]
        self.lab.ledger.write(Publication("pinterest", person.id, "delete", pin.node["id"]))
        return FakeResponse(204)

    def _new(self, person: Person, board: str, asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
        self._count += 1
        now = self.lab.clock.now_ms()
        node = {
            "id": str(813_744_226_420_795_000 + self._count),
            "created_at": instant(now),
            "board_id": board,
            "board_section_id": asked.get("board_section_id"),
            "board_owner": {"username": self.people.by_id[self.boards.by_id[board].owner].username},
            "creative_type": _TYPES[kind],
            "media": {"media_type": kind},
            "parent_pin_id": None,
            "has_been_promoted": False,
            "is_standard": True,
            **{name: asked.get(name) for name in _MAXIMA},
        }
        self.by_id[str(node["id"])] = Pin(person.id, board, now, node)
        return node

    # --- Reading ---

    def get(self, call: Call) -> FakeResponse:
        person = self.people.caller(call, "boards:read", "pins:read")
        return FakeResponse(200, self._shown(self._find(call, person), person))

    def list(self, call: Call) -> FakeResponse:
        """List the caller's pins, newest first."""
        person = self.people.caller(call, "boards:read", "pins:read")
        return self._page(call, person, [pin for pin in self.by_id.values() if pin.account == person.id])

    def of_board(self, call: Call) -> FakeResponse:
        """List a board's pins by any author, newest first."""
        person = self.people.caller(call, "boards:read", "pins:read")
        board = self.boards.visible(call.parts["board"], person)
        return self._page(call, person, [pin for pin in self.by_id.values() if pin.board == board.id])

    def of_section(self, call: Call) -> FakeResponse:
        """List the pins of a section of a board, newest first."""
        person, section = self.people.caller(call, "boards:read", "pins:read"), call.parts["section"]
        board = self.boards.visible(call.parts["board"], person)
        self.boards.check_section(board, section)
        pins = [pin for pin in self.by_id.values() if pin.board == board.id]
        return self._page(call, person, [pin for pin in pins if pin.node["board_section_id"] == section])

    def _page(self, call: Call, person: Person, pins: Sequence[Pin]) -> FakeResponse:
        before = self.lab.clock.now_ms() - self.lab.settings.list_lag_ms
        return page(call, [self._shown(pin, person) for pin in reversed(pins) if pin.at_ms <= before], self.lab)

    def _find(self, call: Call, person: Person) -> Pin:
        pin = self.by_id.get(call.parts["pin"])
        if pin is None:
            raise refuse(404, 50, "Pin not found.")
        self.boards.visible(pin.board, person)
        return pin

    def _shown(self, pin: Pin, person: Person) -> dict[str, Any]:
        return pin.node | {"is_owner": pin.account == person.id}

    # --- Media sources ---

    def _media(self, call: Call, source: Mapping[str, Any], person: Person) -> tuple[str, tuple[PublishedMedia, ...]]:
        kind = source.get("source_type")
        if kind == "video_id":
            return "video", (self._video(call, source, person),)
        if kind in ("image_base64", "image_url"):
            return "image", (self._image(call, source, kind == "image_base64"),)
        if kind not in ("multiple_image_base64", "multiple_image_urls") or not self.carousels:
            raise _invalid(f"'{kind}' is not one of the values of media_source.source_type")
        items = source.get("items")
        if not isinstance(items, list) or not 2 <= len(items) <= 5:
            raise _invalid("media_source.items, constraint: minItems=2, maxItems=5")
        return "multiple_images", tuple(
            self._image(call, item, kind == "multiple_image_base64") for item in items if isinstance(item, dict)
        )

    def _image(self, call: Call, source: Mapping[str, Any], inline: bool) -> PublishedMedia:
        content = _decoded(source) if inline else _pulled(call, str(source.get("url", "")))
        found = mime_type(content, "")
        if found not in (_INLINE if inline else _FETCHED):
            raise refuse(400, 235, "Sorry we could not read the image.")
        return self.lab.add_medium(content, found)

    def _video(self, call: Call, source: Mapping[str, Any], person: Person) -> PublishedMedia:
        video = self.media.of(str(source.get("media_id", "")), person.id)
        if video is None or video.medium is None or self.media.status(video) != "succeeded":
            raise _invalid("media_source.media_id is not a video that has been processed")
        frame = source.get("cover_image_key_frame_time")
        if "cover_image_url" in source:
            _pulled(call, str(source["cover_image_url"]), "cover_image_url: ")
        elif not (_has_cover(source) or (self.covers and isinstance(frame, int) and frame >= 0)):
            raise _invalid("cover_image_url or cover_image_content_type is required")
        return video.medium


def _has_cover(source: Mapping[str, Any]) -> bool:
    return "cover_image_data" in source and "cover_image_content_type" in source


def _invalid(message: str) -> RefusedError:
    return refuse(400, 1, f"Invalid request: {message}.")


def _checked(call: Call) -> dict[str, Any]:
    """Return the body if it has the form of the official description; refuse otherwise."""
    asked = call.record()
    if asked is None:
        raise _invalid("the body is not a JSON object")
    for name in ("board_id", "board_section_id", "parent_pin_id"):
        value = asked.get(name)
        if (value is not None or name == "board_id") and not re.fullmatch(r"\d+", str(value)):
            raise _invalid(f"'{value}' does not match '^\\d+$' ({name})")
    for name, most in _MAXIMA.items():
        if not isinstance(asked.get(name) or "", str) or len(asked.get(name) or "") > most:
            raise _invalid(f"{name}, constraint: maxLength={most}")
    if not isinstance(asked.get("media_source"), dict):
        raise _invalid("media_source is required")
    return asked


def _decoded(source: Mapping[str, Any]) -> bytes:
    if source.get("content_type") not in _INLINE:
        raise _invalid("content_type is not one of ['image/jpeg', 'image/png']")
    try:
        return base64.b64decode(str(source.get("data") or "!"), validate=True)
    except binascii.Error:
        raise _invalid("data does not match '^[a-zA-Z0-9+/=]+$'") from None


def _pulled(call: Call, url: str, about: str = "") -> bytes:
    found = call.fetched.get(url)
    if found is None or not found.ok:
        raise refuse(400, 1, f"{about}Unable to reach the URL. Please check the URL and try again.")
    return found.content


def _pulls(call: Call) -> Iterable[str]:
    """Yield the URLs that Pinterest fetches before it responds."""
    try:
        source = call.json().get("media_source")
        items = [source, *source.get("items", ())]
        urls = [str(item[name]) for item in items for name in ("url", "cover_image_url") if name in item]
    except (ValueError, AttributeError, TypeError):
        return []
    return [url for url in urls if url.startswith(("http://", "https://"))]
