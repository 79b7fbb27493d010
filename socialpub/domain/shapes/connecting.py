"""What requests about accounts carry and what they answer: connecting, disconnecting, boards."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import RootModel, create_model

from socialpub import platforms
from socialpub.domain.shapes.answers import AccountBody, Answer
from socialpub.domain.shapes.issues import issue, schema_error
from socialpub.domain.shapes.schemas import Maybe, PlatformName, Request, Short, Uuid, absent
from socialpub.platforms.contract import Platform


class ConnectRequest(Request):
    """Where to connect an account."""

    profile_id: Maybe[Uuid] = absent()
    """The profile that the account is to belong to; without it the organization's first."""
    handle: Maybe[Short] = absent()
    """The account's name, for platforms whose login depends on it."""


class Completing(Request):
    """What every login may come back with."""

    state: Maybe[Short] = absent()
    """From the address that the platform sent the browser back to; it works once, for ten minutes."""
    code: Maybe[Short] = absent()
    """From the same address."""
    iss: Maybe[Short] = absent()
    """From the same address, where the platform sends it."""
    choice_id: Maybe[Short] = absent()
    """With `state`: one of the accounts that the login offered."""
    profile_id: Maybe[Uuid] = absent()
    """With credentials: the profile that the account is to belong to."""


_FIELDS = {field.name: field for platform in platforms.PLATFORMS.values() for field in platform.credentials}
_optional: Any = Maybe
_DYNAMIC: dict[str, Any] = {name: (_optional[Short], absent()) for name in _FIELDS}
CompleteRequest: type[Completing] = create_model(
    "CompleteRequest",
    __base__=Completing,
    __doc__="What a login came to: `code` and `state`, `choiceId` and `state`, or the fields that were asked for.",
    **_DYNAMIC,
)


def fields_given(platform: Platform, request: Completing) -> dict[str, str]:
    """The credentials; ApiError in the schema's form when one is missing."""
    values = {field.name: getattr(request, field.name) for field in platform.credentials}
    _need(values)
    return values


def back_from(request: Completing) -> tuple[str, str | None, str | None]:
    """(state, code, choice): one of the last two; ApiError in the schema's form."""
    _need({"state": request.state} if request.choice_id else {"state": request.state, "code": request.code})
    if request.code and request.choice_id:
        raise schema_error([issue("extra_forbidden", ["choiceId"], "A code and a choice exclude each other", "", "")])
    return request.state or "", request.code, request.choice_id


def _need(values: dict[str, str | None]) -> None:
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise schema_error([issue("missing", [name], "Field required", "a value", "nothing") for name in missing])


# --- Answers -----------------------------------------------------------------------------------------------------


class FieldBody(Answer):
    """A field to fill in."""

    name: str
    label: str
    secret: bool


class OAuthDescriptor(Answer):
    """Send the browser to this address."""

    type: Literal["oauth"]
    authorize_url: str


class CredentialsDescriptor(Answer):
    """Ask for these fields."""

    type: Literal["credentials"]
    fields: list[FieldBody]


class ConnectBody(Answer):
    """How to connect an account."""

    platform: PlatformName
    state: Literal["stable", "trial", "pending"]
    descriptor: OAuthDescriptor | CredentialsDescriptor


class ChoiceBody(Answer):
    """An account that the login offers."""

    id: str
    platform_account_id: str
    display_name: str | None
    kind: str
    """What it is: `page`, `person`, `organization`."""


class ChoicesBody(Answer):
    """Several accounts: send `state` and `choiceId`, for each one that is wanted."""

    choices: list[ChoiceBody]


class CompletedBody(RootModel[AccountBody | ChoicesBody]):
    """The account, which was connected before; or the accounts to choose from."""


class BoardBody(Answer):
    """A board of an account."""

    id: str
    name: str
    privacy: str


class BoardList(Answer):
    """The boards of an account."""

    data: list[BoardBody]
    default_board_id: str | None


class BoardRequest(Request):
    """The board to use where a post names none."""

    board_id: Short


class DefaultBoardBody(Answer):
    """The account's default board."""

    id: str
    default_board_id: str
    default_board_name: str
