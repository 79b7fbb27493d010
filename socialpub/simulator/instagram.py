"""Fake Instagram: professional accounts, containers and quota (API with Instagram Login)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.base import image_formats
from socialpub.base.image_formats import ImageError, PartRole
from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.ledger import PublishedMedia
from socialpub.simulator.meta import graph
from socialpub.simulator.meta.containers import Container, ContainerQuirks, Containers
from socialpub.simulator.meta.graph import People, Person, instant, refuse
from socialpub.simulator.meta.usage import Meter
from socialpub.simulator.oauth import IssuedTokens, OAuthQuirks
from socialpub.simulator.state import SimulatorState

SCOPES = ("instagram_business_basic", "instagram_business_content_publish")
_CAPTION_MAX, _MENTIONS_MAX, _IMAGE_BYTES_MAX = 2200, 20, 8 * 1024 * 1024
_LOWEST, _HIGHEST = 4 / 5 * 0.99, 1.91 * 1.01  # ratio of width to height


class _AccountRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str = Field("lab", min_length=1)
    display_name: str | None = None
    account_type: str = "BUSINESS"


def _unready() -> RefusedError:
    return refuse(
        9007,
        "The media is not ready to be published. Please wait a moment.",
        2207027,
        user="The media is not ready for publishing, please wait for a moment",
    )


def _check(made: Containers, call: Call, form: Mapping[str, str]) -> tuple[str, tuple[PublishedMedia, ...], str]:
    kind, is_child = form.get("media_type", ""), form.get("is_carousel_item") == "true"
    _check_caption(form.get("caption", ""))
    if kind == "CAROUSEL":
        _check_labels(form, kind)
        children = made.children(call, form, 2, 10)
        return "CAROUSEL_ALBUM", tuple(medium for child in children for medium in child.media), ""
    if kind == "VIDEO" and not is_child:
        raise refuse(100, "The VIDEO value for media_type is no longer supported. Use REELS.", 2207067)
    if kind == "REELS" and is_child:
        raise refuse(100, "(#100) Reels are not allowed in carousels.", 2207023)
    _check_labels(form, kind)
    if kind == "STORIES":
        return _story(made, call, form)
    if kind in ("VIDEO", "REELS"):
        return "VIDEO", *_video(made, call, form)
    if kind:
        raise refuse(100, "(#100) The media type is unknown.", 2207023)
    return "IMAGE", (_image(made, call, form, is_child),), ""


def _check_caption(caption: str) -> None:
    if len(caption) > _CAPTION_MAX:
        raise refuse(36004, "The caption was too long.", 2207010)
    if len(re.findall(r"(?<!\w)@\w", caption)) > _MENTIONS_MAX:
        raise refuse(100, "(#100) Cannot use more than 20 tags.", 2207040)


def _names(form: Mapping[str, str], parameter: str) -> list[Any]:
    """Parse a parameter that is a JSON list."""
    try:
        found = json.loads(form.get(parameter, "[]"))
    except ValueError as error:
        raise refuse(100, f"(#100) Param {parameter} must be an array.") from error
    if not isinstance(found, list):
        raise refuse(100, f"(#100) Param {parameter} must be an array.")
    return found


def _check_labels(form: Mapping[str, str], kind: str) -> None:
    """Refuse parameters that the kind of post does not have, and wrong values."""
    if kind == "STORIES" and (wrong := sorted({"caption", "alt_text", "collaborators", "location_id"} & set(form))):
        raise refuse(100, f"(#100) {wrong[0]} is not supported for stories.")
    if len(_names(form, "collaborators")) > 3:
        raise refuse(100, "(#100) A post can have at most 3 collaborators.")
    tags = _names(form, "user_tags")
    if any(not isinstance(tag, dict) or not {"username", "x", "y"} <= set(tag) for tag in tags):
        raise refuse(100, "(#100) user_tags of an image need username, x and y.")
    if len(tags) > _MENTIONS_MAX:
        raise refuse(100, "(#100) Cannot use more than 20 tags.", 2207040)
    offset = form.get("thumb_offset", "0")
    if not offset.isdecimal():
        raise refuse(1, "The thumbnail offset must be within the video.", 2207057)


def _story(made: Containers, call: Call, form: Mapping[str, str]) -> tuple[str, tuple[PublishedMedia, ...], str]:
    if "video_url" in form:
        return "VIDEO", *_video(made, call, form)
    return "IMAGE", (_image(made, call, form, is_child=True),), ""  # of any shape


def _image(made: Containers, call: Call, form: Mapping[str, str], is_child: bool) -> PublishedMedia:
    if not form.get("image_url"):
        raise refuse(100, "(#100) The parameter image_url is required")
    fetched = call.fetched.get(form["image_url"])
    if fetched is None or not fetched.ok:
        raise _unreachable()
    if mime_type(fetched.content, "") != "image/jpeg":
        raise refuse(36001, "The image format is not supported.", 2207005)
    if len(fetched.content) > _IMAGE_BYTES_MAX:
        raise refuse(36000, "The image size is too large.", 2207004)
    if not is_child:
        _check_shape(fetched.content)
    return made.lab.add_medium(fetched.content, "image/jpeg", form.get("alt_text"))


def _check_shape(content: bytes) -> None:
    try:
        layout = image_formats.read(content, "image/jpeg")
        pixels = image_formats.write(content, layout, (PartRole.PIXELS,))
        with Image.open(io.BytesIO(pixels), formats=["JPEG"]) as image:
            width, height = image.size
    except (OSError, ImageError) as error:
        raise refuse(36001, "The image format is not supported.", 2207005) from error
    if not _LOWEST <= width / height <= _HIGHEST:
        raise refuse(36003, "The aspect ratio is not supported.", 2207009)


def _unreachable() -> RefusedError:
    words = "The media could not be fetched from this URI"
    return refuse(9004, "Only photo or video can be accepted as media type.", 2207052, user=words)


def _video(made: Containers, call: Call, form: Mapping[str, str]) -> tuple[tuple[PublishedMedia, ...], str]:
    """Fetch the video behind the URL, during processing."""
    if form.get("alt_text"):
        raise refuse(100, "(#100) alt_text is for images only.")
    url = form.get("video_url")
    if not url:
        raise refuse(100, "(#100) The parameter video_url is required")
    cover = form.get("cover_url")
    if cover and (cover not in call.fetched or not call.fetched[cover].ok):
        raise _unreachable()
    fetched = call.fetched.get(url)
    if fetched is None or not fetched.ok:
        return (), "2207077"
    found = mime_type(fetched.content, "")
    if found not in ("video/mp4", "video/quicktime"):
        return (), "2207026"
    return (made.lab.add_medium(fetched.content, found),), ""


_SENTENCES = {
    "IN_PROGRESS": "In Progress: Media is still being processed.",
    "FINISHED": "Finished: Media has been uploaded and it is ready to be published.",
    "PUBLISHED": "Published: Media has been successfully published.",
    "EXPIRED": "Expired: Media was not published within 24 hours.",
}


def _status(container: Container, status: str) -> dict[str, Any]:
    failed = f"Error: Media upload has failed with error code {container.error}"
    return {"id": container.id, "status_code": status, "status": _SENTENCES.get(status, failed)}


def _node(container: Container, person: Person, id: str, code: str, now_ms: int) -> dict[str, Any]:
    is_story = container.form.get("media_type") == "STORIES"
    is_reel = container.kind == "VIDEO" and not is_story
    page = f"stories/{person.username}/{id}" if is_story else f"{'reel' if is_reel else 'p'}/{code}/"
    return {
        "id": id,
        "caption": container.form.get("caption", ""),
        "media_type": container.kind,
        "media_product_type": "STORY" if is_story else "REELS" if is_reel else "FEED",
        "permalink": f"https://www.instagram.com/{page}",
        "shortcode": code,
        "timestamp": instant(now_ms),
        "username": person.username,
    }


def _usage(posts: int, _: int, quota: int) -> dict[str, Any]:
    return {"quota_usage": posts, "config": {"quota_total": quota, "quota_duration": graph.DAY_SECONDS}}


def _me(person: Person) -> dict[str, Any]:
    return {
        "id": str(int(person.id) + 9_000_000_000_000_000),  # app-scoped id of the account
        "user_id": person.id,
        "username": person.username,
        "name": person.name,
        "account_type": person.account_type,
        "profile_picture_url": None,
    }


def _issued(issue: IssuedTokens) -> FakeResponse:
    row = {"access_token": issue.access, "user_id": int(issue.account), "permissions": ",".join(issue.scopes)}
    return FakeResponse(200, {"data": [row]})


_OAUTH_QUIRKS = OAuthQuirks(
    authorize_path="/oauth/authorize",
    token_path="/oauth/access_token",
    code_seconds=3600,
    access_seconds=3600,
    denial=graph.DENIAL,
    fragment="_",
    issued=_issued,
    refused=graph.build_token_endpoint_refusal,
)

_CONTAINER_QUIRKS = ContainerQuirks(
    name="instagram",
    make="media",
    publish="media_publish",
    limit="content_publishing_limit",
    posts="media",
    scope="instagram_business_content_publish",
    check=_check,
    status=_status,
    node=_node,
    unready=_unready,
    usage=_usage,
    me=_me,
)


class Instagram:
    """Fake platform; implements `FakePlatform`. `made` has settings for tests."""

    name: str = "instagram"
    max_body: int = 1024 * 1024
    ids: tuple[str, ...] = ("id", "user_id", "access_token")

    def __init__(self, lab: SimulatorState) -> None:
        self.people = People(lab, _OAUTH_QUIRKS, SCOPES, 17_841_400_000_000_000)
        self.made = Containers(lab, self.people, _CONTAINER_QUIRKS, quota=50)
        self.meter = Meter(lab, "instagram", 80002)

    def operations(self) -> tuple[Operation, ...]:
        path = f"/{graph.VERSION}/<user>/stories"
        calls = (
            Operation("stories.list", ("GET",), path, lambda call: self.made.page(call, replies=False, stories=True)),
            *self.made.operations(graph.VERSION),
        )
        return (*self.people.operations("ig"), *self.meter.count_calls(calls))

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create an account with a 60-day token.

        `wanted`: `handle`, optional `displayName` and `accountType`.
        """
        asked = _AccountRequest.model_validate(wanted)
        person, issue = self.people.add(asked.handle, asked.display_name, asked.account_type)
        return self.people.credentials(
            person, issue, kind="instagram_login", accountType=person.account_type, grantedScopes=list(issue.scopes)
        )

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        self.people.end_tokens(account, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        return graph.refusal(status, retry_after)

    def reset(self) -> None:
        self.made.reset()
        self.meter.reset()
