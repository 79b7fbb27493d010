"""Schemas of the catalog: platforms, rules, error codes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema
from typing_extensions import TypeAliasType, TypedDict

from socialpub.domain.schemas.common import ErrorCode, PlatformName
from socialpub.platforms.contract import TextUnit

Severity = Literal["error", "warning"]
# No `type` or `anyOf`: generators of statically typed clients have no type for number, text or list.
RuleLimit = TypeAliasType(
    "RuleLimit",
    Annotated[
        Any,
        WithJsonSchema(
            {
                "description": "The limit of a rule in `unit`: a number, a text, a list of texts, or null where the "
                "rule has none.",
                "not": {"type": ["boolean", "object"]},
            }
        ),
    ],
)


class TextLimit(TypedDict):
    """Maximum length of a text, in the platform's own unit."""

    limit: int | None
    """Null: not documented by the platform."""
    unit: TextUnit


class MediaLimit(TypedDict):
    """Media allowed in one post."""

    images: int
    """The maximum number of images."""
    videos: int
    """The maximum number of videos."""
    documents: int
    """The maximum number of documents; they are published alone."""
    mixed: bool
    """Whether one post may mix images and videos."""
    types: list[str]
    """The accepted content types."""


class PlatformInfo(TypedDict):
    """Platform with a summary of its limits; the rules list all of them."""

    platform: PlatformName
    label: str
    """The display name."""
    state: Literal["stable", "trial", "pending"]
    """`pending`: the platform must approve this server's app first."""
    apiVersion: str
    """The API version of the platform that this server calls."""
    sunsetAt: str | None
    """When the platform ends that version, if announced."""
    text: TextLimit
    media: MediaLimit
    firstComment: bool
    """Whether `firstComment` is posted; otherwise it is ignored, with a warning."""


class PlatformList(TypedDict):
    """All platforms, including those that this server does not publish to."""

    data: list[PlatformInfo]


class RuleInfo(TypedDict):
    """Rule, as the code checks it."""

    rule: str
    platform: PlatformName | None
    """Null: a rule of this service."""
    stage: Literal["request", "cheap", "deep", "upstream", "connect", "publish", "retired"]
    """When the rule applies. `request` and `cheap`: before anything is written; `deep`: once the media are available;
    `upstream`: by the platform; `publish`: while publishing; `connect`: when connecting an account; `retired`:
    never."""
    severity: Severity
    limit: RuleLimit
    unit: str | None
    message: str
    remediation: str
    source: str
    """Where the limit is documented."""
    ruleUrl: str


class RuleList(TypedDict):
    """All rules of the service and of the platforms."""

    data: list[RuleInfo]


class CodeInfo(TypedDict):
    """Error code."""

    code: ErrorCode
    status: int
    """The HTTP status, unless the rule has its own."""
    message: str
    remediation: str
    docUrl: str


class CodeList(TypedDict):
    """All error codes."""

    data: list[CodeInfo]
