"""Schemas of slots: the weekly times of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from socialpub.base.time_zones import list_zones
from socialpub.domain.schemas.common import DateTime, Maybe, RequestModel, Uuid, absent

SLOTS_MAX = 100
SLOT_TIME_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def _check_zone(name: str) -> str:
    if name not in list_zones():
        raise PydanticCustomError("time_zone", "Input should be the name of a time zone, such as Europe/Berlin")
    return name


class Slot(RequestModel):
    """Slot of every week."""

    day: Day
    """Day of the week."""
    time: Annotated[str, StringConstraints(pattern=SLOT_TIME_PATTERN)]
    """Local time of 24 hours, such as `09:30`. A day on which the clock skips it has no slot; where it occurs twice,
    the slot is the first."""


def _check_distinct(slots: list[Slot]) -> list[Slot]:
    if len({(slot.day, slot.time) for slot in slots}) < len(slots):
        raise PydanticCustomError("unique_items", "Each day and time should occur only once")
    return slots


class SlotsRequest(RequestModel):
    """Body of PUT /v1/slots."""

    profile_id: Maybe[Uuid] = absent()
    """The profile. Not needed for a key bound to a profile, or if the organization has only one."""
    zone: Annotated[str, StringConstraints(max_length=100), AfterValidator(_check_zone)]
    """The IANA name of the time zone of the slots."""
    weekly: Annotated[
        list[Slot],
        Field(max_length=SLOTS_MAX, json_schema_extra={"uniqueItems": True}),
        AfterValidator(_check_distinct),
    ]
    """The slots of every week; an empty list removes them."""


if TYPE_CHECKING:

    class SlotBody(TypedDict):
        """Slot as stored and returned."""

        day: Day
        time: str
else:
    SlotBody = Slot  # one type in the OpenAPI document


class ProfileSlotsBody(TypedDict):
    """Slots of a profile."""

    profileId: str
    zone: str
    """The IANA name of the time zone of the slots."""
    weekly: list[SlotBody]
    """In the order of the week."""
    next: DateTime | None
    """The next free slot; null if there is none within 52 weeks."""
