"""Posts: created, listed for pages, deleted. Parses "little text" as LinkedIn does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.forms import fields
from socialpub.simulator.ledger import Publication, PublishedMedia
from socialpub.simulator.linkedin.api import People, body_of, invalid, listed, part, refuse
from socialpub.simulator.linkedin.media import Media
from socialpub.simulator.state import SimulatorState

_TEXT_MAX, _ALT_MAX, _IMAGES_MAX = 3000, 4086, 20
_DUPLICATE_MS = 600_000
_PIECE = re.compile(
    r"\\(?P<escaped>.)"
    r"|\{hashtag\|\\?#\|(?P<tag>\w+)\}"
    r"|@\[(?P<name>[^\]]{0,200})\]\(urn:li:[^)]{0,100}\)"
    r"|(?<!\w)(?P<hash>#)(?=\w)"
    r"|(?P<reserved>[|{}@\[\]()<>#\\*_~])"
    r"|(?P<plain>.)",
    re.DOTALL,
)


def shown(commentary: str) -> str:
    """Return the visible commentary: it ends before an unescaped reserved character."""
    text = ""
    for piece in _PIECE.finditer(commentary):
        if piece["reserved"]:
            break
        text += f"#{piece['tag']}" if piece["tag"] else piece["escaped"] or piece["name"] or piece["hash"] or (
            piece["plain"] or ""
        )  # fmt: skip
    return text


@dataclass
class Post:
    node: dict[str, Any]
    at_ms: int


@dataclass
class Posts:
    """All posts."""

    lab: SimulatorState
    people: People
    media: Media
    by_urn: dict[str, Post] = field(default_factory=dict)
    _count: int = 0

    def operations(self) -> tuple[Operation, ...]:
        return self.people.add_checks(
            (
                Operation("posts.create", ("POST",), "/rest/posts", self.create),
                Operation("posts.list", ("GET",), "/rest/posts", self.list),
                Operation("posts.get", ("GET",), "/rest/posts/<urn>", self.get),
                Operation("posts.delete", ("DELETE",), "/rest/posts/<urn>", self.delete),
            )
        )

    def reset(self) -> None:
        self.by_urn.clear()

    # --- Creating ---

    def create(self, call: Call) -> FakeResponse:
        """Create a post; its id is only in a header."""
        asked = body_of(call)
        author = _checked(asked)
        self.people.author(call, author, "posts.CREATE.20260901")
        page = author in self.people.pages
        if page and asked["visibility"] != "PUBLIC":
            raise invalid("/visibility", "INVALID_VALUE_FOR_FIELD", "Organizations post for everybody")
        media = tuple(self._media(asked, author))
        text = asked.get("commentary", "")
        if not media and not text.strip():
            raise invalid("/commentary", "INVALID_VALUE_BLANK_FIELD", "commentary is blank")
        self._refuse_duplicate(asked)
        self._count += 1
        kind = "ugcPost" if any(medium.type.startswith("video/") for medium in media) else "share"
        urn = f"urn:li:{kind}:{7_396_000_000_000_000_000 + self._count}"
        now = self.lab.clock.now_ms()
        stamps = {"createdAt": now, "publishedAt": now, "lastModifiedAt": now}
        self.by_urn[urn] = Post({**asked, "id": urn, **stamps}, now)
        url = f"https://www.linkedin.com/feed/update/{urn}/"
        self.lab.ledger.write(Publication("linkedin", author, "post", urn, url, shown(text), media, asked))
        return FakeResponse(201, headers={"x-restli-id": urn})

    def _refuse_duplicate(self, asked: dict[str, Any]) -> None:
        since = self.lab.clock.now_ms() - _DUPLICATE_MS
        for urn, post in self.by_urn.items():
            alike = all(post.node.get(name) == asked.get(name) for name in ("author", "commentary", "content"))
            if alike and post.at_ms > since:
                raise refuse(422, "UNPROCESSABLE_ENTITY", f"Content is a duplicate of {urn}")

    def _media(self, asked: dict[str, Any], author: str) -> Iterable[PublishedMedia]:
        content = asked.get("content")
        if content is None:
            return
        if not isinstance(content, dict) or len(content) != 1:
            raise invalid("/content", "INVALID_VALUE_FOR_FIELD", "content is one of media, multiImage, article")
        if "multiImage" in content:
            images = content["multiImage"].get("images") if isinstance(content["multiImage"], dict) else None
            if not isinstance(images, list) or not 2 <= len(images) <= _IMAGES_MAX:
                raise invalid("/content/multiImage", "INVALID_VALUE_FOR_FIELD", "multiImage has 2 to 20 images")
            for each in images:
                yield self._medium(each, author, ("image",))
        elif "media" in content:
            yield self._medium(content["media"], author, ("image", "video", "document"))
        else:
            raise invalid("/content", "INVALID_VALUE_FOR_FIELD", "content is one of media, multiImage")

    def _medium(self, named: Any, author: str, kinds: tuple[str, ...]) -> PublishedMedia:
        urn = str(named.get("id")) if isinstance(named, dict) else ""
        asset = self.media.by_urn.get(urn)
        if asset is None or asset.kind not in kinds or asset.owner != author:
            raise invalid("/content/media/id", "INVALID_URN_ID", f"{urn} is no media of {author}")
        status = self.media.status(asset)
        if status == "WAITING_UPLOAD" or (status == "PROCESSING" and asset.kind == "video"):
            raise refuse(400, "MEDIA_ASSET_WAITING_UPLOAD", "Media asset is waiting upload")
        if status == "PROCESSING_FAILED" or asset.medium is None or asset.broken:
            raise refuse(400, "MEDIA_ASSET_PROCESSING_FAILED", "Media asset processing failed")
        title = named.get("title", "")
        if not isinstance(title, str) or (asset.kind == "document" and not title.strip()):
            raise invalid("/content/media/title", "MISSING_FIELD", "title is required")
        alt = named.get("altText")
        if alt is not None and (not isinstance(alt, str) or len(alt) > _ALT_MAX):
            raise invalid("/content/media/altText", "FIELD_LENGTH_TOO_LONG", "altText is too long")
        return replace(asset.medium, alt=alt)

    # --- Reading ---

    def get(self, call: Call) -> FakeResponse:
        """Return a post of a page; new apps cannot read members' posts."""
        post = self.by_urn.get(part(call, "urn"))
        caller = self.people.caller(call)
        mine = post is not None and post.node["author"] in caller.member.roles
        if "r_organization_social" not in caller.scopes or (post is not None and not mine):
            raise refuse(403, "ACCESS_DENIED", "Not enough permissions to access: posts.GET.20260901")
        if post is None:
            raise refuse(404, "RESOURCE_NOT_FOUND", "Could not find entity")
        return FakeResponse(200, post.node)

    def list(self, call: Call) -> FakeResponse:
        """List a page's posts, last changed first."""
        caller, asked = self.people.caller(call), fields(call)
        if asked.get("q") != "author" or call.headers.get("x-restli-method") != "FINDER":
            raise refuse(400, "ILLEGAL_ARGUMENT", "Unknown finder")
        author = asked.get("author", "")
        if author not in caller.member.roles or "r_organization_social" not in caller.scopes:
            raise refuse(403, "ACCESS_DENIED", "Not enough permissions to access: posts.FINDER-author.20260901")
        before = self.lab.clock.now_ms() - self.lab.settings.list_lag_ms
        mine = [post.node for post in self.by_urn.values() if post.node["author"] == author and post.at_ms <= before]
        return FakeResponse(200, listed(call, mine[::-1], self.lab))

    def delete(self, call: Call) -> FakeResponse:
        """Delete a post; succeeds if it does not exist."""
        post = self.by_urn.get(part(call, "urn"))
        self.people.caller(call)
        if post is not None:
            self.people.author(call, post.node["author"], "posts.DELETE.20260901")
            del self.by_urn[post.node["id"]]
            self.lab.ledger.write(Publication("linkedin", post.node["author"], "delete", post.node["id"]))
        return FakeResponse(204)


def _checked(asked: dict[str, Any]) -> str:
    """Validate the body of a post; return its author."""
    for name in ("author", "visibility", "distribution", "lifecycleState"):
        if name not in asked:
            raise invalid(f"/{name}", "MISSING_FIELD", f"{name} is required")
    unknown = set(asked) - {*_FIELDS}
    if unknown:
        raise invalid(f"/{min(unknown)}", "INVALID_VALUE_FOR_FIELD", f"{min(unknown)} is not a field of a post")
    if asked["visibility"] not in ("PUBLIC", "CONNECTIONS", "LOGGED_IN"):
        raise invalid("/visibility", "INVALID_VALUE_FOR_FIELD", "visibility is not one of its values")
    if not isinstance(asked.get("isReshareDisabledByAuthor", False), bool):
        raise invalid(
            "/isReshareDisabledByAuthor", "INVALID_VALUE_FOR_FIELD", "isReshareDisabledByAuthor is no boolean"
        )
    if asked["lifecycleState"] != "PUBLISHED":
        raise invalid("/lifecycleState", "INVALID_VALUE_FOR_FIELD", "lifecycleState is PUBLISHED")
    channel = asked["distribution"].get("feedDistribution") if isinstance(asked["distribution"], dict) else None
    if channel not in ("MAIN_FEED", "NONE"):
        raise invalid("/distribution/feedDistribution", "INVALID_VALUE_FOR_FIELD", "feedDistribution is wrong")
    text = asked.get("commentary", "")
    if not isinstance(text, str):
        raise invalid("/commentary", "INVALID_VALUE_FOR_FIELD", "commentary is no text")
    if len(text) > _TEXT_MAX:
        raise invalid("/commentary", "FIELD_LENGTH_TOO_LONG", "commentary is longer than 3000 characters")
    return str(asked["author"])


_FIELDS = (
    "author",
    "commentary",
    "visibility",
    "distribution",
    "content",
    "lifecycleState",
    "isReshareDisabledByAuthor",
)
