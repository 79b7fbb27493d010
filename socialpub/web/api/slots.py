"""/v1/slots."""

from __future__ import annotations

from socialpub.domain.access.actions import bind
from socialpub.domain.posts import slots
from socialpub.domain.schemas.common import ProfileQuery
from socialpub.domain.schemas.slots import ProfileSlotsBody, SlotsRequest
from socialpub.web.api.write_handlers import commit
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import PROFILE_ID

SLOTS: ProfileSlotsBody = {
    "profileId": PROFILE_ID,
    "zone": "Europe/Berlin",
    "weekly": [{"day": "mon", "time": "09:30"}, {"day": "thu", "time": "18:00"}],
    "next": "2030-12-03T17:00:00.000Z",
}
WEEK = {"profileId": PROFILE_ID, "zone": SLOTS["zone"], "weekly": SLOTS["weekly"]}
READ = Operation(
    "Slots",
    "readSlots",
    "Read the slots of a profile",
    "The weekly times at which a profile publishes, and the next free one. A key bound to a profile reads those of its "
    "profile; otherwise name the profile, unless there is only one. A profile without slots has an empty list.",
    query=ProfileQuery,
    answers={200: SuccessResponse(ProfileSlotsBody, "The slots.", SLOTS)},
    errors=("not_found",),
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/slots."""
    scope = call.profile_scope
    return HandlerResponse(await call.read(lambda: slots.load_body(call.service, scope)))


DEFINE = Operation(
    "Slots",
    "defineSlots",
    "Define the slots of a profile",
    'Replaces all slots of the profile. A publish request with `"slot": "next"` takes the next free one. Posts that '
    "are queued already keep their times.",
    body=SlotsRequest,
    requests={"twice a week": WEEK},
    answers={200: SuccessResponse(ProfileSlotsBody, "The new slots.", SLOTS)},
    errors=("not_found", "api_key.profile_scope"),
)


async def define(call: RequestContext) -> HandlerResponse:
    """PUT /v1/slots."""
    return await commit(call, SlotsRequest, lambda request: bind(call.actor, slots.define, request))
