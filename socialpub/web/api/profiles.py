"""/v1/profiles: read with a key or a session, changed by signed-in users only."""

from __future__ import annotations

from socialpub.domain import organization_deletion
from socialpub.domain.access.actions import bind
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.common import DeletedBody, ProfileQuery
from socialpub.domain.schemas.profiles import ProfileBody, ProfileList, ProfileRequest
from socialpub.web.api.write_handlers import commit, commit_without_body
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import PROFILE_ID

DEFAULT: ProfileBody = {
    "id": PROFILE_ID,
    "name": "default",
    "slug": "default",
    "createdAt": "2026-09-24T07:14:20.098Z",
    "updatedAt": "2026-09-24T07:14:20.098Z",
}
NAMED: ProfileBody = {**DEFAULT, "name": "Corner Bakery", "slug": "corner-bakery"}
RENAMED: ProfileBody = {**DEFAULT, "name": "Main Street Bakery", "slug": "main-street-bakery"}


PROFILES: ProfileList = {"data": [DEFAULT]}
LIST = Operation(
    "Profiles",
    "listProfiles",
    "List profiles",
    "A key that is limited to a profile sees only that profile.",
    answers={200: SuccessResponse(ProfileList, "The profiles.", PROFILES)},
)


async def list_profiles(call: RequestContext) -> HandlerResponse:
    """GET /v1/profiles."""
    return HandlerResponse(ProfileList(data=await call.service.read(lambda: profiles.list_bodies(call.scope))))


CREATE = Operation(
    "Profiles",
    "createProfile",
    "Create a profile",
    body=ProfileRequest,
    requests={"create": {"name": "Corner Bakery"}},
    answers={201: SuccessResponse(ProfileBody, "The new profile.", NAMED)},
    errors=("profile.slug.unique",),
)


async def create(call: RequestContext) -> HandlerResponse:
    """POST /v1/profiles."""
    return await commit(call, ProfileRequest, lambda request: bind(call.actor, profiles.create, request))


RENAME = Operation(
    "Profiles",
    "renameProfile",
    "Rename a profile",
    query=ProfileQuery,
    body=ProfileRequest,
    requests={"rename": {"name": "Main Street Bakery"}},
    answers={200: SuccessResponse(ProfileBody, "The renamed profile.", RENAMED)},
    errors=("not_found", "profile.slug.unique"),
)


async def rename(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/profiles/{id}."""
    profile = call.path_value("profile_id")
    return await commit(call, ProfileRequest, lambda request: bind(call.actor, profiles.rename, profile, request))


DELETED: DeletedBody = {"id": PROFILE_ID, "deleted": True}
DELETE = Operation(
    "Profiles",
    "deleteProfile",
    "Delete a profile",
    "The profile must have no accounts. API keys that are limited to it are revoked, and its webhook endpoints and "
    "notification channels are deleted.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DeletedBody, "The profile was deleted.", DELETED)},
    errors=("not_found", "profile.delete.not_empty"),
)


async def delete(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/profiles/{id}."""
    profile = call.path_value("profile_id")
    return await commit_without_body(call, lambda: bind(call.actor, organization_deletion.delete_profile, profile))
