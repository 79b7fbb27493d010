"""Posts on X: validated, created, listed, deleted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.ledger import Publication
from socialpub.simulator.state import SimulatorState
from socialpub.simulator.twitter import text as texts
from socialpub.simulator.twitter.media import Upload, Uploads
from socialpub.simulator.twitter.problems import forbidden, invalid, problem
from socialpub.simulator.twitter.request_bodies import body_of
from socialpub.simulator.twitter.users import People, User

WEB = "https://x.com"
_FIRST_ID = 1_990_000_000_000_000_000
_DIGITS = r"^[0-9]{1,19}$"
_CASHTAG = re.compile(r"(?<!\S)\$[A-Za-z]{1,6}\b")
_FIELDS = frozenset({"attachments", "created_at", "entities", "text", "id", "author_id"})
_STRANGER = (
    "Reply to this conversation is not allowed because you have not been mentioned or otherwise engaged by the author "
    "of the post you are replying to."
)
Spelling = Literal["both", "post", "tweet"]


class _Media(BaseModel):
    model_config = ConfigDict(extra="forbid")

    media_ids: list[StrictStr] = Field(min_length=1, max_length=4)
    tagged_user_ids: list[StrictStr] = Field([], max_length=10)


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    in_reply_to_tweet_id: StrictStr = Field(pattern=_DIGITS)
    exclude_reply_user_ids: list[StrictStr] = []


class _PostRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: StrictStr  # its backend rejects an absent text, also beside media (OpenAPI 2.167)
    media: _Media | None = None
    reply: _Reply | None = None
    quote_tweet_id: StrictStr | None = Field(None, pattern=_DIGITS)
    reply_settings: Literal["following", "mentionedUsers", "subscribers", "verified"] | None = None
    community_id: StrictStr | None = Field(None, pattern=_DIGITS)
    made_with_ai: StrictBool = False
    paid_partnership: StrictBool = False


_DuplicateKey = tuple[str, str, str | None, str | None]


def _duplicate_keys(author: User, wanted: _PostRequest) -> set[_DuplicateKey]:
    """Return the keys that must be unique: equal texts in one place. Media make a post unique."""
    if wanted.media is not None:
        return set()
    reply = wanted.reply.model_dump_json() if wanted.reply else None
    return {(author.id, wanted.text.strip(), reply, wanted.quote_tweet_id)}


@dataclass(frozen=True)
class Post:
    id: str
    author: User
    wanted: _PostRequest
    media: tuple[Upload, ...]
    at_ms: int

    @property
    def url(self) -> str:
        return f"{WEB}/{self.author.username}/status/{self.id}"

    @property
    def references(self) -> list[dict[str, str]]:
        reply, quoted = self.wanted.reply, self.wanted.quote_tweet_id
        named = [("replied_to", reply.in_reply_to_tweet_id)] if reply else []
        named += [("quoted", quoted)] if quoted else []
        return [{"type": kind, "id": id} for kind, id in named]


@dataclass
class Posts:
    """All posts. For tests: `spelling` of the list's parameters; `quoting`: the app may quote."""

    lab: SimulatorState
    people: People
    uploads: Uploads
    spelling: Spelling = "both"
    quoting: bool = False
    by_id: dict[str, Post] = field(default_factory=dict)
    _said: set[_DuplicateKey] = field(default_factory=set)
    _made: int = 0

    def operations(self) -> tuple[Operation, ...]:
        counted = self.people.counted
        return (
            Operation("tweets.create", ("POST",), "/2/tweets", counted("create", 100, self.create)),
            Operation("tweets.delete", ("DELETE",), "/2/tweets/<id>", counted("delete", 50, self.delete)),
            Operation("users.tweets", ("GET",), "/2/users/<id>/tweets", counted("list", 900, self.page)),
        )

    def reset(self) -> None:
        self.by_id.clear()
        self._said.clear()
        self.spelling, self.quoting = "both", False

    # --- Making ---

    def create(self, call: Call) -> FakeResponse:
        user = self.people.caller(call, "tweet.write", "tweet.read", "users.read")
        wanted = body_of(call, _PostRequest)
        media = self._checked(user, wanted)
        self.people.pay()
        self._made += 1
        post = Post(str(_FIRST_ID + self._made), user, wanted, tuple(media), self.lab.clock.now_ms())
        self.by_id[post.id] = post
        self._said |= _duplicate_keys(user, wanted)
        self._tell(post, "comment" if wanted.reply else "post", call)
        data = {"id": post.id, "text": self._text(post)[0], "edit_history_post_ids": [post.id]}
        return FakeResponse(201, {"data": data})

    def _checked(self, user: User, wanted: _PostRequest) -> list[Upload]:
        """Return the media of a valid post; refuse otherwise."""
        if not wanted.text.strip() and wanted.media is None:
            raise invalid("text field is required", "text")
        if wanted.media and wanted.quote_tweet_id:
            raise invalid("media and quote_tweet_id exclude each other", "quote_tweet_id")
        if texts.weight(wanted.text) > (texts.MAX_PAID if user.paid else texts.MAX):
            raise forbidden("Your Tweet text is too long. For more information on how Twitter determines text length.")
        if wanted.text.count("$") > 1 and len(_CASHTAG.findall(wanted.text)) > 1:
            raise invalid("A post may contain a maximum of one cashtag.", "text")
        media = self.uploads.attached(user, wanted.media.media_ids) if wanted.media else []
        self._check_place(user, wanted)
        if self._said & _duplicate_keys(user, wanted):
            raise forbidden("You are not allowed to create a Tweet with duplicate content.")
        return media

    def _check_place(self, user: User, wanted: _PostRequest) -> None:
        """Refuse replies to accounts that are not mentioned, and quotes, for self-serve apps."""
        if wanted.quote_tweet_id and not self.quoting:
            raise forbidden("You are not permitted to perform this action.")
        if wanted.reply is None:
            return
        parent = self.by_id.get(wanted.reply.in_reply_to_tweet_id)
        if parent is None:
            raise forbidden("You attempted to reply to a Tweet that is deleted or not visible to you.")
        mentioned = re.search(rf"@{user.username}\b", parent.wanted.text, re.IGNORECASE)
        if parent.author.id != user.id and not mentioned:
            raise forbidden(_STRANGER)

    def delete(self, call: Call) -> FakeResponse:
        user = self.people.caller(call, "tweet.write", "tweet.read", "users.read")
        post = self.by_id.get(call.parts["id"])
        if post is None or post.author.id != user.id:
            raise forbidden("You are not authorized to delete this Tweet.")
        del self.by_id[post.id]
        self._said -= _duplicate_keys(user, post.wanted)
        self._tell(post, "delete", call)
        return FakeResponse(200, {"data": {"deleted": True}})

    def _tell(self, post: Post, kind: str, call: Call) -> None:
        media = tuple(self.uploads.shown(upload) for upload in post.media)
        request = call.json() if call.body else None
        self.lab.ledger.write(
            Publication("twitter", post.author.id, kind, post.id, post.url, post.wanted.text, media, request)
        )

    # --- Showing ---

    def page(self, call: Call) -> FakeResponse:
        """List a user's posts and replies, newest first."""
        self.people.caller(call, "tweet.read", "users.read")
        query = {name: values[-1] for name, values in call.query.items()}
        user = self.people.by_id.get(call.parts["id"])
        if user is None:
            raise problem(404, "Not Found Error", "Could not find user.", "resource-not-found")
        word, fields = self._asked(query)
        posts = self._listed(user, query)
        start, size = int(query.get("pagination_token") or 0), _size(query, self.lab.settings.list_limit)
        shown = posts[start : start + size]
        meta: dict[str, Any] = {"result_count": len(shown)}
        if start + size < len(posts):
            meta["next_token"] = str(start + size)
        if not shown:
            return FakeResponse(200, {"meta": meta})
        meta |= {"newest_id": shown[0].id, "oldest_id": shown[-1].id}
        return FakeResponse(200, {"data": [self._node(post, word, fields) for post in shown], "meta": meta})

    def _listed(self, user: User, query: Mapping[str, str]) -> list[Post]:
        since = _instant(query["start_time"]) if "start_time" in query else 0
        until = self.lab.clock.now_ms() - self.lab.settings.list_lag_ms
        mine = [post for post in self.by_id.values() if post.author.id == user.id]
        return [post for post in reversed(mine) if since <= post.at_ms <= until]

    def _asked(self, query: Mapping[str, str]) -> tuple[str, set[str]]:
        """Return the caller's spelling (post or tweet) and the requested fields."""
        other = {"post": "tweet.fields", "tweet": "post.fields", "both": ""}[self.spelling]
        if other in query:
            raise invalid(f"The query parameter [{other}] is not one of the known ones", other, [query[other]])
        word = "post" if "post.fields" in query else "tweet"
        fields = set(filter(None, query.get(f"{word}.fields", "").split(",")))
        known = _FIELDS | {f"note_{word}"} | ({"referenced_tweets"} if word == "tweet" else set())
        if unknown := fields - known:
            raise invalid(f"The `{word}.fields` query parameter value [{min(unknown)}] is not valid", f"{word}.fields")
        if query.get("expansions") == f"referenced_{word}s":
            fields.add(f"referenced_{word}s")
        return word, fields

    def _node(self, post: Post, word: str, fields: set[str]) -> dict[str, Any]:
        shown, links = self._text(post)
        entities = {"urls": [{"url": link.short, "expanded_url": link.target} for link in links]} if links else None
        node: dict[str, Any] = {
            "created_at": f"{datetime.fromtimestamp(post.at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.000Z",
            "author_id": post.author.id,
            "attachments": {"media_keys": [upload.key for upload in post.media]} if post.media else None,
            "entities": entities,
            f"referenced_{word}s": post.references or None,
        }
        if texts.weight(post.wanted.text) > texts.MAX:
            node[f"note_{word}"] = {"text": shown} | ({"entities": entities} if entities else {})
            shown = f"{shown[:270]}…"
        asked = {name: value for name, value in node.items() if name in fields and value is not None}
        return {"id": post.id, "text": shown, f"edit_history_{word}_ids": [post.id], **asked}

    def _text(self, post: Post) -> tuple[str, list[texts.Link]]:
        tail = [texts.short(f"{post.url}/photo/1")] if post.media else []
        quoted = self.by_id.get(post.wanted.quote_tweet_id or "")
        return texts.rewritten(post.wanted.text, tail + ([texts.short(quoted.url)] if quoted else []))


def _size(query: Mapping[str, str], limit: int | None) -> int:
    wanted = query.get("max_results", "10")
    if not wanted.isdecimal() or not 5 <= int(wanted) <= 100:
        raise invalid(f"The `max_results` query parameter value [{wanted}] is not between 5 and 100", "max_results")
    return min(int(wanted), limit or 100)


def _instant(text: str) -> int:
    try:
        return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        raise invalid("start_time must be YYYY-MM-DDTHH:mm:ssZ", "start_time", [text]) from None
