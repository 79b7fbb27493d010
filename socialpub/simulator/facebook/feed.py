"""Posts and photos of Pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.facebook.pages import Page, Pages
from socialpub.simulator.forms import fields
from socialpub.simulator.ledger import Publication, PublishedMedia
from socialpub.simulator.meta.graph import DAY_SECONDS, VERSION, instant, listed, parse_field_names, refuse, shown
from socialpub.simulator.meta.multipart import form_of
from socialpub.simulator.state import SimulatorState

WEB = "https://www.facebook.com"
_MESSAGE_MAX, _PHOTO_MAX = 63_206, 10 * 1024 * 1024
_DUPLICATE_MS = 60_000
_TYPES = ("image/jpeg", "image/png", "image/gif", "image/bmp", "image/tiff", "image/webp")


@dataclass
class Photo:
    id: str
    page: str
    medium: PublishedMedia
    at_ms: int
    used: bool = False


@dataclass
class Post:
    page: str
    at_ms: int
    content: tuple[str, ...]  # identifies a duplicate
    node: dict[str, Any]


@dataclass
class Feed:
    """Everything that Pages have posted, and their uploads."""

    lab: SimulatorState
    pages: Pages
    posts: dict[str, Post] = field(default_factory=dict)
    photos: dict[str, Photo] = field(default_factory=dict)
    stories: list[Post] = field(default_factory=list)
    due: Callable[[], None] = lambda: None  # publishes what has become due
    _count: int = 0

    def operations(self) -> tuple[Operation, ...]:
        home = f"/{VERSION}/<page>"
        return (
            Operation("feed.post", ("POST",), f"{home}/feed", self.post, _link),
            Operation("feed.list", ("GET",), f"{home}/feed", self.latest),
            Operation("published_posts", ("GET",), f"{home}/published_posts", self.latest),
            Operation("photos", ("POST",), f"{home}/photos", self.upload, _url),
            Operation("photo_stories", ("POST",), f"{home}/photo_stories", self.tell),
            Operation("stories.list", ("GET",), f"{home}/stories", self.list_stories),
        )

    def reset(self) -> None:
        self.posts.clear()
        self.photos.clear()
        self.stories.clear()

    def new_id(self) -> str:
        self._count += 1
        return str(122_000_000_000_000 + 7 * self._count)

    def node(self, id: str, account: str) -> dict[str, Any] | None:
        """Return a post, or a photo that still exists."""
        post, photo = self.posts.get(id), self.photos.get(id)
        if post is not None and post.page == account:
            return post.node
        if photo is not None and photo.page == account and self._is_there(photo):
            return {"id": id, "alt_text_custom": photo.medium.alt}
        return None

    # --- Calls ---

    def post(self, call: Call) -> FakeResponse:
        """Publish a post."""
        page, form = self.pages.page(call), fields(call)
        message, link = form.get("message", ""), form.get("link", "")
        photos = [self._attached(page, value) for name, value in form.items() if name.startswith("attached_media[")]
        if not (message.strip() or link or photos):
            raise refuse(100, "(#100) The parameter message or link is required")
        if len(message) > _MESSAGE_MAX:
            raise refuse(100, "(#100) Name parameter too long")
        _check_link(call, link)
        backdated = form.get("backdated_time", "0")
        if not backdated.isdecimal() or int(backdated) * 1000 > self.now:
            raise refuse(100, "(#100) Param backdated_time must be a time in the past")
        content = (message, link, *(photo.id for photo in photos))
        self._refuse_second(page, content)
        for photo in photos:
            photo.used = True
        node = self._node(page, message, [_attachment(photo) for photo in photos] or _card(link))
        self.add(page, content, node, message, tuple(photo.medium for photo in photos), form)
        if "backdated_time" in form:  # listed as a post of that time
            self.posts[node["id"]].at_ms = int(backdated) * 1000
            node["created_time"] = instant(int(backdated) * 1000)
        asked = parse_field_names(call, "id")
        return FakeResponse(200, shown(node, [name for name in asked if name != "id"]))

    def latest(self, call: Call) -> FakeResponse:
        """List the Page's posts, newest first."""
        page = self.pages.page(call)
        self.due()
        mine = [(post.at_ms, post.node) for post in self.posts.values() if post.page == page.id]
        return listed(call, mine, parse_field_names(call, "id,message,created_time"), self.lab)

    def upload(self, call: Call) -> FakeResponse:
        """Upload a photo: published alone with `published`, otherwise held for a post for a day."""
        page, form = self.pages.page(call), form_of(call)
        fetched = call.fetched.get(form.texts.get("url", ""))
        content = form.files["source"][1] if "source" in form.files else fetched.content if fetched else b""
        kind = mime_type(content, "")
        if kind not in _TYPES:
            raise refuse(324, "(#324) Missing or invalid image file", 2069019)
        if len(content) > _PHOTO_MAX:
            raise refuse(1, "The photo is too big", 1366046)
        medium = self.lab.add_medium(content, kind, form.texts.get("alt_text_custom"))
        photo = Photo(self.new_id(), page.id, medium, self.now)
        self.photos[photo.id] = photo
        if form.texts.get("published", "true") == "false":
            return FakeResponse(200, {"id": photo.id})
        photo.used = True
        caption = form.texts.get("caption", "")
        node = self._node(page, caption, [_attachment(photo)])
        self.add(page, (caption, photo.id), node, caption, (medium,), form.texts)
        return FakeResponse(200, {"id": photo.id, "post_id": node["id"]})

    def tell(self, call: Call) -> FakeResponse:
        """Publish an unused photo as a story."""
        page, form = self.pages.page(call), fields(call)
        photo = self.photos.get(form.get("photo_id", ""))
        if photo is None or photo.page != page.id or not self._is_there(photo):
            raise refuse(100, "(#100) Param photo_id must be the id of an unpublished photo of the Page")
        if photo.used:
            raise refuse(1, "The photo was posted already", 1366051)
        photo.used, id = True, self.new_id()
        self.add_story(page, id, "photo", photo.id, photo.medium)
        return FakeResponse(200, {"success": True, "post_id": id})

    def add_story(self, page: Page, id: str, kind: str, media: str, medium: PublishedMedia) -> None:
        """Publish a story with one photo or video."""
        node = {
            "id": id,
            "post_id": id,
            "status": "PUBLISHED",
            "creation_time": str(self.now // 1000),
            "media_type": kind,
            "media_id": media,
            "url": f"{WEB}/stories/{page.id}/{id}",
        }
        self.stories.append(Post(page.id, self.now, (media,), node))
        request = {f"{kind}_id": media, "surface": "story"}
        self.lab.ledger.write(Publication("facebook", page.id, "post", id, node["url"], "", (medium,), request))

    def list_stories(self, call: Call) -> FakeResponse:
        """List the Page's stories of the last day, newest first; they stand in no other list."""
        page = self.pages.page(call)
        self.due()
        young = [
            story for story in self.stories if story.page == page.id and self.now - story.at_ms < DAY_SECONDS * 1000
        ]
        nodes = [(story.at_ms, story.node) for story in young]
        return listed(call, nodes, parse_field_names(call, "post_id,status"), self.lab)

    # --- Tools ---

    @property
    def now(self) -> int:
        return self.lab.clock.now_ms()

    def add(
        self,
        page: Page,
        content: tuple[str, ...],
        node: dict[str, Any],
        text: str,
        media: tuple[PublishedMedia, ...],
        form: dict[str, str],
        remote_id: str = "",
    ) -> None:
        """Publish to the ledger. `remote_id`: its id there, if not the post's."""
        self.posts[node["id"]] = Post(page.id, self.now, content, node)
        request = {name: value for name, value in form.items() if name != "access_token"}
        self.lab.ledger.write(
            Publication(
                "facebook", page.id, "post", remote_id or node["id"], node["permalink_url"], text, media, request
            )
        )

    def _node(self, page: Page, message: str, attachments: list[dict[str, Any]]) -> dict[str, Any]:
        number = self.new_id()
        return {
            "id": f"{page.id}_{number}",
            "message": message,
            "created_time": instant(self.now),
            "permalink_url": f"{WEB}/{page.id}/posts/{number}",
            "application": {"id": self.pages.server.client_id, "name": "Lab"},
            "attachments": {"data": attachments} if attachments else None,
        }

    def _attached(self, page: Page, value: str) -> Photo:
        try:
            photo = self.photos.get(str(json.loads(value)["media_fbid"]))
        except (ValueError, LookupError, TypeError):
            photo = None
        if photo is None or photo.page != page.id or not self._is_there(photo):
            raise refuse(100, "(#100) Param attached_media must contain ids of unpublished photos of the Page")
        if photo.used:
            raise refuse(1, "The photos were posted already", 1366051)
        return photo

    def _is_there(self, photo: Photo) -> bool:
        return photo.used or self.now - photo.at_ms < DAY_SECONDS * 1000

    def _refuse_second(self, page: Page, content: tuple[str, ...]) -> None:
        for post in self.posts.values():
            if post.page == page.id and post.content == content and self.now - post.at_ms < _DUPLICATE_MS:
                raise refuse(506, "(#506) Duplicate status message")


def _attachment(photo: Photo) -> dict[str, Any]:
    return {"media_type": "photo", "target": {"id": photo.id}}


def _card(link: str) -> list[dict[str, Any]]:
    return [{"media_type": "link", "unshimmed_url": link}] if link else []


def _check_link(call: Call, link: str) -> None:
    host = urlsplit(link).hostname or ""
    if link and (host == "facebook.com" or host.endswith(".facebook.com")):
        raise refuse(100, "(#100) The link is not allowed", 1609008)
    if link in call.fetched and not call.fetched[link].ok:
        raise refuse(1, "The URL could not be read", 1609005, user="We could not gather data from the link.")


def _link(call: Call) -> Iterable[str]:
    """Yield the link if it is on this machine, where the simulator can fetch it."""
    link = fields(call).get("link", "")
    return [link] if link.startswith("http://127.0.0.1") else []


def _url(call: Call) -> Iterable[str]:
    url = form_of(call).texts.get("url", "")
    return [url] if url.startswith(("http://", "https://")) else []
