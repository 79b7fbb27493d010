"""Schemas of drafts."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

from socialpub.domain.schemas.common import FILTER_MAX, NO_NUL, DateTime, Maybe, RequestModel, Uuid, absent
from socialpub.domain.schemas.errors import ErrorBody
from socialpub.domain.schemas.events import DraftAuthor
from socialpub.domain.schemas.posts import TARGETS_MAX, BatchRequest, Target
from socialpub.platforms.kit.options import LINE_FEEDS
from socialpub.store.rows import DraftStatus

TITLE_MAX = 200
NOTE_MAX = 2000
Title = Annotated[str, StringConstraints(max_length=TITLE_MAX), NO_NUL]
Note = Annotated[str, StringConstraints(max_length=NOTE_MAX), LINE_FEEDS, NO_NUL]


# --- Requests ------------------------------------------------------------------------------------------------------


class DraftTarget(Target):
    """Target of a draft, which may not name its account yet."""

    model_config = ConfigDict(json_schema_extra={})


# Counted by the rule `targets.max`; the schema only documents it.
_Targets = Annotated[list[DraftTarget], Field(json_schema_extra={"maxItems": TARGETS_MAX})]


class DraftContent(BatchRequest):
    """Content of a draft: a publish request of which anything may be missing."""

    targets: Maybe[_Targets] = absent()  # type: ignore[assignment]
    """At most 25."""


class DraftRequest(DraftContent):
    """New draft: a publish request of which anything may be missing, and a title."""

    title: Maybe[Title] = absent()
    """For your own orientation: it is not published."""


class DraftChange(RequestModel):
    """Body of PATCH /v1/drafts/{id}: omitted fields stay unchanged."""

    title: Title | None = absent()
    """Empty or null: none."""
    content: Maybe[DraftContent] = absent()
    """Replaces the whole content."""


class ReturnRequest(RequestModel):
    """Body of POST /v1/drafts/{id}/return."""

    note: Maybe[Note] = absent()
    """What to change."""


class DraftsQuery(RequestModel):
    """Query of GET /v1/drafts; lists are repeated or comma-separated."""

    status: Maybe[Annotated[list[DraftStatus], Field(max_length=FILTER_MAX)]] = absent()
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Drafts per page. A page of very large drafts has fewer."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the previous page; an empty one is ignored."""
    profile_id: Maybe[Uuid] = absent()
    """Drafts of this profile."""


# --- Responses -----------------------------------------------------------------------------------------------------


class DraftProblem(ErrorBody):
    """Reason why publishing the draft would be refused, as POST /v1/posts/validate reports it."""

    targetIndex: NotRequired[int]
    """The target; absent if the problem is not of one target."""
    accountId: NotRequired[str]


class DraftBody(TypedDict):
    """Draft of a publish request."""

    id: str
    title: str | None
    content: dict[str, Any]
    """The publish request so far, with times in UTC. Inline bytes have become a `mediaId`."""
    status: DraftStatus
    """`approved` ends with the next change of the content, and the draft is a `draft` again."""
    note: str | None
    """Why it was returned, until it is proposed or approved again."""
    problems: list[DraftProblem]
    """Why publishing would be refused now. In the response to a write: as of the last check."""
    createdBy: DraftAuthor
    """The author of the draft."""
    updatedBy: DraftAuthor
    """The author of the last change or decision."""
    batchId: str | None
    """The batch, once published."""
    createdAt: DateTime
    updatedAt: DateTime


class DraftPage(TypedDict):
    """Page of drafts, newest first."""

    data: list[DraftBody]
    nextCursor: str | None
    """The `cursor` of the next page; null on the last one."""


class ApprovalLink(TypedDict):
    """Link by which a person without a login approves or returns one draft."""

    url: str
    """Shown only once. Anyone who has it can decide on this draft."""
    expiresAt: DateTime
