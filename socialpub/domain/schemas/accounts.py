"""Schemas of accounts: requests, responses, connecting, boards."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StringConstraints, create_model
from typing_extensions import TypeAliasType, TypedDict

from socialpub import platforms
from socialpub.domain.schemas.common import (
    FILTER_MAX,
    DateTime,
    ErrorCode,
    Maybe,
    PlatformName,
    RequestModel,
    ShortText,
    Uuid,
    absent,
)
from socialpub.domain.schemas.validation import build_issue, build_schema_error
from socialpub.platforms.contract import Platform
from socialpub.store.rows import AccountStatus

# --- Requests ------------------------------------------------------------------------------------------------------


class AccountsQuery(RequestModel):
    """Query of GET /v1/accounts; lists are repeated or comma-separated."""

    profile_id: Maybe[Annotated[str, StringConstraints(to_lower=True)]] = absent()
    """Accounts of this profile. An unknown, malformed or empty profile matches none."""
    platform: Maybe[Annotated[list[PlatformName], Field(max_length=FILTER_MAX)]] = absent()
    status: Maybe[Annotated[list[AccountStatus], Field(max_length=FILTER_MAX)]] = absent()


class ConnectRequest(RequestModel):
    """Account to connect."""

    profile_id: Maybe[Uuid] = absent()
    """The profile that will own the account; default: the organization's first."""
    handle: Maybe[ShortText] = absent()
    """The account's handle, for platforms whose login needs it."""


class CompleteRequestBase(RequestModel):
    """Result of a login."""

    state: Maybe[ShortText] = absent()
    """The `state` parameter of the URL that the platform redirected to. Valid once, for ten minutes."""
    code: Maybe[ShortText] = absent()
    """The `code` parameter of the same URL."""
    iss: Maybe[ShortText] = absent()
    """The `iss` parameter of the same URL, if there is one."""
    choice_id: Maybe[ShortText] = absent()
    """With `state`: one of the accounts offered by the login."""
    profile_id: Maybe[Uuid] = absent()
    """With credentials: the profile that will own the account."""


_CREDENTIAL_FIELDS = {field.name: field for platform in platforms.PLATFORMS.values() for field in platform.credentials}
_optional: Any = Maybe
_CREDENTIAL_PARAMETERS: dict[str, Any] = {name: (_optional[ShortText], absent()) for name in _CREDENTIAL_FIELDS}
CompleteRequest: type[CompleteRequestBase] = create_model(
    "CompleteRequest",
    __base__=CompleteRequestBase,
    __doc__="What a login came to: `code` and `state`, `choiceId` and `state`, or the fields that were asked for.",
    **_CREDENTIAL_PARAMETERS,
)


def read_credentials(platform: Platform, request: CompleteRequestBase) -> dict[str, str]:
    """Return the credentials. Raises ApiError in the schema's form if one is missing."""
    values = {field.name: getattr(request, field.name) for field in platform.credentials}
    _check_required(values)
    return values


def read_redirect(request: CompleteRequestBase) -> tuple[str, str | None, str | None]:
    """Return (state, code, choice) with either code or choice. Raises ApiError as the schema."""
    _check_required({"state": request.state} if request.choice_id else {"state": request.state, "code": request.code})
    if request.code and request.choice_id:
        raise build_schema_error(
            [build_issue("extra_forbidden", ["choiceId"], "A code and a choice exclude each other", "", "")]
        )
    return request.state or "", request.code, request.choice_id


def _check_required(values: dict[str, str | None]) -> None:
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise build_schema_error(
            [build_issue("missing", [name], "Field required", "a value", "nothing") for name in missing]
        )


class BoardRequest(RequestModel):
    """Default board, for posts that name none."""

    board_id: ShortText


# --- Responses -----------------------------------------------------------------------------------------------------


class PinterestBlock(TypedDict):
    """Fields of Pinterest accounts only."""

    defaultBoardId: str | None
    """The board of targets that name none."""
    defaultBoardName: str | None


class InstagramBlock(TypedDict):
    """Fields of Instagram accounts only, as the platform reports them."""

    kind: str | None
    accountType: str | None
    grantedScopes: list[str] | None


class Attention(TypedDict):
    """Refusal by the platform despite a valid token: a missing permission, a suspension."""

    code: ErrorCode
    message: str
    """The problem and the platform's explanation, for people."""
    at: DateTime


class AccountBody(TypedDict):
    """Connected account, without secrets."""

    id: str
    profileId: str
    platform: PlatformName
    platformAccountId: str
    """The platform's own id of the account."""
    displayName: str | None
    status: AccountStatus
    """`expiring`: the token ends soon and cannot be refreshed automatically. `revoked`: reconnect the account."""
    createdAt: DateTime
    updatedAt: DateTime
    tokenExpiresAt: DateTime | None
    attention: NotRequired[Attention]
    """Why the platform refused a post of this account. Absent if all is well, and again once a post succeeds."""
    groups: NotRequired[list[str]]
    """Names of the groups that the account is in, as the dashboard's composer saves them. Absent without one."""
    pinterest: NotRequired[PinterestBlock]
    """Pinterest accounts only."""
    instagram: NotRequired[InstagramBlock]
    """Instagram accounts only."""


class AccountList(TypedDict):
    """Connected accounts, oldest first."""

    data: list[AccountBody]


class FieldBody(TypedDict):
    """Form field to fill in."""

    name: str
    label: str
    secret: bool


class OAuthDescriptor(TypedDict):
    """Address to open in the browser."""

    type: Literal["oauth"]
    authorizeUrl: str


class CredentialsDescriptor(TypedDict):
    """Fields to ask for."""

    type: Literal["credentials"]
    fields: list[FieldBody]


Descriptor = Annotated[OAuthDescriptor | CredentialsDescriptor, Field(discriminator="type")]


class ConnectBody(TypedDict):
    """Way to connect an account."""

    platform: PlatformName
    state: Literal["stable", "trial", "pending"]
    descriptor: Descriptor


class ChoiceBody(TypedDict):
    """Account offered by the login."""

    id: str
    platformAccountId: str
    displayName: str | None
    kind: str
    """`page`, `person` or `organization`."""


class ChoicesBody(TypedDict):
    """Accounts to choose from: send `state` and `choiceId` for each one you want."""

    choices: list[ChoiceBody]


CompletedBody = TypeAliasType(
    "CompletedBody",
    Annotated[
        AccountBody | ChoicesBody,
        Field(description="The account, which was connected before; or the accounts to choose from."),
    ],
)


class BoardBody(TypedDict):
    """Board of an account."""

    id: str
    name: str
    privacy: str


class BoardList(TypedDict):
    """Boards of an account."""

    data: list[BoardBody]
    defaultBoardId: str | None


class DefaultBoardBody(TypedDict):
    """Default board of an account."""

    id: str
    defaultBoardId: str
    defaultBoardName: str
