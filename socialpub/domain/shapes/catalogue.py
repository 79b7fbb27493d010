"""What the answers of the catalogue look like (platforms, rules, codes), and those about the server's health."""

from __future__ import annotations

from typing import Literal

from socialpub.domain.shapes.answers import Answer, Severity, Unit
from socialpub.domain.shapes.schemas import ErrorCode, Maybe, PlatformName, absent


class TextLimit(Answer):
    """How long a text may be, in the platform's own unit."""

    limit: int | None
    """Null: the platform documents none."""
    unit: Unit


class MediaLimit(Answer):
    """What media one post may carry."""

    images: int
    """At most so many images."""
    videos: int
    """At most so many videos."""
    mixed: bool
    """Whether images and videos may stand in one post."""
    types: list[str]
    """The content types that the platform takes."""


class PlatformInfo(Answer):
    """One platform and its limits in short; its rules say all of them."""

    platform: PlatformName
    label: str
    """The name for people."""
    state: Literal["stable", "trial", "pending"]
    """`pending`: the platform has to approve this server's app first."""
    api_version: str
    """The version of the platform's API that this server calls."""
    sunset_at: str | None
    """When the platform ends that version, where it has said so."""
    text: TextLimit
    media: MediaLimit
    first_comment: bool
    """Whether `firstComment` is posted; elsewhere it is ignored, with a warning."""


class PlatformList(Answer):
    """Every platform, those that this server does not publish to included."""

    data: list[PlatformInfo]


class RuleInfo(Answer):
    """One rule, as the code checks it."""

    rule: str
    platform: PlatformName | None
    """Null: a rule of this service."""
    stage: Literal["request", "cheap", "deep", "upstream", "connect", "publish", "retired"]
    """When it is decided: `request` and `cheap` before anything is written, `deep` once the media are here, `upstream`
    by the platform, `publish` while publishing, `connect` when an account is connected; `retired`: never."""
    severity: Severity
    limit: int | float | str | list[str] | None
    unit: str | None
    message: str
    remediation: str
    source: str
    """Where the limit is documented."""
    rule_url: str


class RuleList(Answer):
    """Every rule of the service and of every platform."""

    data: list[RuleInfo]


class CodeInfo(Answer):
    """One error code."""

    code: ErrorCode
    status: int
    """The HTTP status of an answer with this code, unless its rule has another."""
    message: str
    remediation: str
    doc_url: str


class CodeList(Answer):
    """Every error code."""

    data: list[CodeInfo]


# --- Health ------------------------------------------------------------------------------------------------------


class HealthBody(Answer):
    """The process answers."""

    status: Literal["ok"]


class ReadyBody(Answer):
    """The server can do its work."""

    status: Literal["ok"]
    publishing: Literal["active", "paused"]
    """`paused`: posts are accepted for later, none is published."""
    reason: Literal["clock", "restored"] | None = None
    """Why, while it is paused."""
    canceling: Maybe[int] = absent()
    """Posts of disconnected accounts that are still to be canceled, while there are any."""
    silent: Maybe[list[str]] = absent()
    """Platforms that have not answered the last calls, while there are any: their posts wait until they do."""
