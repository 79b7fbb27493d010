"""Fake Threads: profiles, containers, replies, quotas (Threads API v1.0, any prefix)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import fields
from socialpub.simulator.ledger import PublishedMedia
from socialpub.simulator.meta import graph
from socialpub.simulator.meta.containers import REPLY_QUOTA, Container, ContainerQuirks, Containers
from socialpub.simulator.meta.graph import People, Person, instant, refuse
from socialpub.simulator.meta.usage import Meter
from socialpub.simulator.oauth import IssuedTokens, OAuthQuirks
from socialpub.simulator.state import SimulatorState

SCOPES = ("threads_basic", "threads_content_publish", "threads_manage_replies", "threads_delete")
_IMAGES, _VIDEOS = ("image/jpeg", "image/png"), ("video/mp4", "video/quicktime")
_TYPES = {"TEXT": "TEXT_POST", "IMAGE": "IMAGE", "VIDEO": "VIDEO", "CAROUSEL": "CAROUSEL_ALBUM"}
_TEXT_MAX, _LINKS_MAX, _ALT_MAX, _TOPIC_MAX = 500, 5, 1000, 50
_REPLIERS = ("everyone", "accounts_you_follow", "mentioned_only", "parent_post_author_only", "followers_only")


class _AccountRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str = Field("lab", min_length=1)
    display_name: str | None = None


def _unready() -> RefusedError:
    # Also reported for existing containers (fbsamples/threads_api#70).
    return refuse(
        24,
        "The requested resource does not exist",
        4279009,
        user="The media with the given id cannot be found. It may not be ready yet.",
    )


def _check(made: Containers, call: Call, form: Mapping[str, str]) -> tuple[str, tuple[PublishedMedia, ...], str]:
    kind = form.get("media_type", "")
    if kind not in _TYPES:
        raise refuse(
            100, "(#100) Param media_type must be one of {TEXT, IMAGE, VIDEO, CAROUSEL}", kind="THApiException"
        )
    _check_text(made, form, kind)
    if kind == "CAROUSEL":
        children = made.children(call, form, 2, 20)
        return _TYPES[kind], tuple(medium for child in children for medium in child.media), ""
    if kind == "TEXT":
        return _TYPES[kind], (), ""
    return _TYPES[kind], *_medium(made, call, form, kind)


def _check_text(made: Containers, form: Mapping[str, str], kind: str) -> None:
    text, alt = form.get("text", ""), form.get("alt_text", "")
    if kind == "TEXT" and not text.strip():
        raise refuse(100, "(#100) The parameter text is required")
    if _length(text) > _TEXT_MAX:
        raise refuse(100, "(#100) Param text must be at most 500 characters long.", kind="THApiException")
    links = set(re.findall(r"https?://[^\s]+", text)) | {form[name] for name in ("link_attachment",) if name in form}
    if len(links) > _LINKS_MAX:
        raise refuse(100, "THREADS_API__LINK_LIMIT_EXCEEDED", kind="THApiException")
    if alt and (kind not in ("IMAGE", "VIDEO") or len(alt) > _ALT_MAX):
        raise refuse(100, "(#100) Param alt_text is not allowed here or too long")
    _check_options(form, kind)
    for name in ("reply_to_id", "quote_post_id"):
        if name in form and form[name] not in made.posts:
            raise graph.missing(form[name])


def _check_options(form: Mapping[str, str], kind: str) -> None:
    topic = form.get("topic_tag", "topic")
    if not 1 <= len(topic) <= _TOPIC_MAX or set(topic) & set(".&"):
        raise refuse(100, "(#100) Param topic_tag must have 1 to 50 characters, without . and &", kind="THApiException")
    if form.get("reply_control", "everyone") not in _REPLIERS:
        raise refuse(100, f"(#100) Param reply_control must be one of {{{', '.join(_REPLIERS)}}}")
    if "link_attachment" in form and kind != "TEXT":
        raise refuse(100, "(#100) Param link_attachment is only allowed for text posts", kind="THApiException")


def _length(text: str) -> int:
    """Count a text: emoji by bytes (posts guide), modifiers not at all, others as one."""
    return sum(len(char.encode()) if _is_emoji(char) else not unicodedata.combining(char) for char in text)


def _is_emoji(char: str) -> bool:
    return char >= "\U0001f000" or char in "\u200d\ufe0f\u20e3" or "\u2600" <= char <= "\u27bf"


def _medium(made: Containers, call: Call, form: Mapping[str, str], kind: str) -> tuple[tuple[PublishedMedia, ...], str]:
    """Fetch the medium behind the URL: images at once, videos during processing."""
    image = kind == "IMAGE"
    url = form.get("image_url" if image else "video_url", "")
    fetched = call.fetched.get(url)
    if fetched is None or not fetched.ok:
        if image or not url:
            raise refuse(100, "(#100) The media could not be fetched from this URI.", 2207052)
        return (), "FAILED_DOWNLOADING_VIDEO"
    found = mime_type(fetched.content, "application/octet-stream")
    if found not in (_IMAGES if image else _VIDEOS):
        return (), "UNKNOWN" if image else "FAILED_PROCESSING_VIDEO"
    return (made.lab.add_medium(fetched.content, found, form.get("alt_text")),), ""


def _status(container: Container, status: str) -> dict[str, Any]:
    error = container.error if status == "ERROR" else ""
    return {"id": container.id, "status": status, "error_message": error}


def _node(container: Container, person: Person, id: str, code: str, now_ms: int) -> dict[str, Any]:
    return {
        "id": id,
        "text": container.form.get("text", ""),
        "media_type": container.kind,
        "media_product_type": "THREADS",
        "permalink": f"https://www.threads.com/@{person.username}/post/{code}",
        "shortcode": code,
        "timestamp": instant(now_ms),
        "username": person.username,
        "is_quote_post": "quote_post_id" in container.form,
    }


def _usage(posts: int, replies: int, quota: int) -> dict[str, Any]:
    day = {"quota_duration": graph.DAY_SECONDS}
    return {
        "quota_usage": posts,
        "config": {"quota_total": quota, **day},
        "reply_quota_usage": replies,
        "reply_config": {"quota_total": REPLY_QUOTA, **day},
    }


def _me(person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "username": person.username,
        "name": person.name,
        "threads_profile_picture_url": None,
        "threads_biography": None,
        "is_verified": False,
    }


def _issued(issue: IssuedTokens) -> FakeResponse:
    return FakeResponse(200, {"access_token": issue.access, "user_id": int(issue.account)})


_OAUTH_QUIRKS = OAuthQuirks(
    authorize_path="/oauth/authorize",
    token_path="/oauth/access_token",
    token_methods=("GET", "POST"),
    app_tokens=True,
    code_seconds=3600,
    access_seconds=3600,
    denial=graph.DENIAL,
    fragment="_",
    issued=_issued,
    refused=graph.build_token_endpoint_refusal,
)

_CONTAINER_QUIRKS = ContainerQuirks(
    name="threads",
    make="threads",
    publish="threads_publish",
    limit="threads_publishing_limit",
    posts="threads",
    scope="threads_content_publish",
    check=_check,
    status=_status,
    node=_node,
    unready=_unready,
    usage=_usage,
    me=_me,
    reply_scope="threads_manage_replies",
)


class Threads:
    """Fake platform; implements `FakePlatform`. `made` has settings for tests."""

    name: str = "threads"
    max_body: int = 1024 * 1024
    ids: tuple[str, ...] = ("id", "access_token")

    def __init__(self, lab: SimulatorState) -> None:
        self.people = People(lab, _OAUTH_QUIRKS, SCOPES, 25_100_000_000_000_000)
        self.made = Containers(lab, self.people, _CONTAINER_QUIRKS)
        self.meter = Meter(lab, "threads", 4)

    def operations(self) -> tuple[Operation, ...]:
        replies = f"/{graph.VERSION}/<user>/replies"
        return (
            *self.people.operations("th"),
            Operation("token.inspect", ("GET",), f"/{graph.VERSION}/debug_token", self.inspect),
            *self.meter.count_calls(self.made.operations(graph.VERSION)),
            Operation("replies.list", ("GET",), replies, lambda call: self.made.page(call, replies=True)),
            Operation("delete", ("DELETE",), f"/{graph.VERSION}/<node>", self.made.delete),
        )

    def inspect(self, call: Call) -> FakeResponse:
        """Describe a token, without its times, for any caller of the app."""
        self.people.tokens.access(call)
        found = self.people.tokens.server.access(fields(call).get("input_token", ""))
        alive = found.state == "alive"
        info = {"type": "USER", "application": "Lab", "is_valid": alive, "scopes": list(found.scopes)}
        return FakeResponse(200, {"data": info | ({"user_id": found.account} if found.account else {})})

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create a profile with a 60-day token. `wanted`: `handle`, optional `displayName`."""
        asked = _AccountRequest.model_validate(wanted)
        person, issue = self.people.add(asked.handle, asked.display_name)
        return self.people.credentials(person, issue, username=person.username)

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        self.people.end_tokens(account, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        return graph.refusal(status, retry_after)

    def reset(self) -> None:
        self.made.reset()
        self.meter.reset()
