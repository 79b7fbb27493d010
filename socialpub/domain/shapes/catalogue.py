"""The catalogue: platforms, rules, error codes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema
from typing_extensions import TypeAliasType, TypedDict

from socialpub.domain.shapes.common import ErrorCode, PlatformName, Unit

Severity = Literal["error", "warning"]
# Without `type` or alternatives: generators of statically typed clients have no type for a number, a text or a list.
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
    """How long a text may be, in the platform's own unit."""

    limit: int | None
    """Null: the platform documents none."""
    unit: Unit


class MediaLimit(TypedDict):
    """What media one post may carry."""

    images: int
    """At most so many images."""
    videos: int
    """At most so many videos."""
    mixed: bool
    """Whether images and videos may stand in one post."""
    types: list[str]
    """The content types that the platform takes."""


class PlatformInfo(TypedDict):
    """One platform and its limits in short; its rules say all of them."""

    platform: PlatformName
    label: str
    """The name for people."""
    state: Literal["stable", "trial", "pending"]
    """`pending`: the platform has to approve this server's app first."""
    apiVersion: str
    """The version of the platform's API that this server calls."""
    sunsetAt: str | None
    """When the platform ends that version, where it has said so."""
    text: TextLimit
    media: MediaLimit
    firstComment: bool
    """Whether `firstComment` is posted; elsewhere it is ignored, with a warning."""


class PlatformList(TypedDict):
    """Every platform, those that this server does not publish to included."""

    data: list[PlatformInfo]


class RuleInfo(TypedDict):
    """One rule, as the code checks it."""

    rule: str
    platform: PlatformName | None
    """Null: a rule of this service."""
    stage: Literal["request", "cheap", "deep", "upstream", "connect", "publish", "retired"]
    """When it is decided: `request` and `cheap` before anything is written, `deep` once the media are here, `upstream`
    by the platform, `publish` while publishing, `connect` when an account is connected; `retired`: never."""
    severity: Severity
    limit: RuleLimit
    unit: str | None
    message: str
    remediation: str
    source: str
    """Where the limit is documented."""
    ruleUrl: str


class RuleList(TypedDict):
    """Every rule of the service and of every platform."""

    data: list[RuleInfo]


class CodeInfo(TypedDict):
    """One error code."""

    code: ErrorCode
    status: int
    """The HTTP status of an answer with this code, unless its rule has another."""
    message: str
    remediation: str
    docUrl: str


class CodeList(TypedDict):
    """Every error code."""

    data: list[CodeInfo]
