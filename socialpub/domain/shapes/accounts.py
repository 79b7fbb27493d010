"""Accounts: what requests about them carry and what they answer; connecting, disconnecting, boards."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, create_model
from typing_extensions import TypeAliasType, TypedDict

from socialpub import platforms
from socialpub.domain.shapes.common import (
    FILTER_MAX,
    DateTime,
    ErrorCode,
    Maybe,
    PlatformName,
    Request,
    Short,
    Uuid,
    absent,
)
from socialpub.domain.shapes.issues import issue, schema_error
from socialpub.platforms.contract import Platform
from socialpub.store.rows import AccountStatus

# --- Requests ------------------------------------------------------------------------------------------------------


class AccountsQuery(Request):
    """The query of GET /v1/accounts; lists are repeated or comma-separated."""

    profile_id: Maybe[str] = absent()
    """Accounts of this profile; an unknown, malformed or empty one has none."""
    platform: Maybe[Annotated[list[PlatformName], Field(max_length=FILTER_MAX)]] = absent()
    status: Maybe[Annotated[list[AccountStatus], Field(max_length=FILTER_MAX)]] = absent()


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


class BoardRequest(Request):
    """The board to use where a post names none."""

    board_id: Short


# --- Answers -------------------------------------------------------------------------------------------------------


class PinterestBlock(TypedDict):
    """What only Pinterest accounts have."""

    defaultBoardId: str | None
    """The board of targets that name none."""
    defaultBoardName: str | None


class InstagramBlock(TypedDict):
    """What only Instagram accounts have, as the platform reports it."""

    kind: str | None
    accountType: str | None
    grantedScopes: list[str] | None


class Attention(TypedDict):
    """What the platform refuses the account although its token is good: a missing permission, a suspension."""

    code: ErrorCode
    message: str
    """What is wrong and what the platform says of it, for people."""
    at: DateTime


class AccountBody(TypedDict):
    """A connected account; never its secrets."""

    id: str
    profileId: str
    platform: PlatformName
    platformAccountId: str
    """The platform's own id of the account."""
    displayName: str | None
    status: AccountStatus
    """`expiring`: the token ends soon and cannot be refreshed by itself. `revoked`: reconnect the account."""
    createdAt: DateTime
    updatedAt: DateTime
    tokenExpiresAt: DateTime | None
    attention: NotRequired[Attention]
    """Why the platform refused a post of this account; absent when all is well, and again once a post succeeds."""
    pinterest: NotRequired[PinterestBlock]
    """What only accounts of this platform have."""
    instagram: NotRequired[InstagramBlock]
    """What only accounts of this platform have."""


class AccountList(TypedDict):
    """The connected accounts, oldest first."""

    data: list[AccountBody]


class FieldBody(TypedDict):
    """A field to fill in."""

    name: str
    label: str
    secret: bool


class OAuthDescriptor(TypedDict):
    """Send the browser to this address."""

    type: Literal["oauth"]
    authorizeUrl: str


class CredentialsDescriptor(TypedDict):
    """Ask for these fields."""

    type: Literal["credentials"]
    fields: list[FieldBody]


Descriptor = Annotated[OAuthDescriptor | CredentialsDescriptor, Field(discriminator="type")]


class ConnectBody(TypedDict):
    """How to connect an account."""

    platform: PlatformName
    state: Literal["stable", "trial", "pending"]
    descriptor: Descriptor


class ChoiceBody(TypedDict):
    """An account that the login offers."""

    id: str
    platformAccountId: str
    displayName: str | None
    kind: str
    """What it is: `page`, `person`, `organization`."""


class ChoicesBody(TypedDict):
    """Several accounts: send `state` and `choiceId`, for each one that is wanted."""

    choices: list[ChoiceBody]


CompletedBody = TypeAliasType(
    "CompletedBody",
    Annotated[
        AccountBody | ChoicesBody,
        Field(description="The account, which was connected before; or the accounts to choose from."),
    ],
)


class BoardBody(TypedDict):
    """A board of an account."""

    id: str
    name: str
    privacy: str


class BoardList(TypedDict):
    """The boards of an account."""

    data: list[BoardBody]
    defaultBoardId: str | None


class DefaultBoardBody(TypedDict):
    """The account's default board."""

    id: str
    defaultBoardId: str
    defaultBoardName: str
