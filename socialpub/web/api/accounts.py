"""/v1/accounts: list, connect and disconnect accounts; Pinterest boards."""

from __future__ import annotations

from collections.abc import Mapping

from socialpub import platforms
from socialpub.base.json_codec import dumps
from socialpub.domain.access.actions import BoundAction, bind
from socialpub.domain.accounts import accounts, boards, connect
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.accounts import (
    AccountBody,
    AccountList,
    AccountsQuery,
    BoardBody,
    BoardList,
    BoardRequest,
    ChoiceBody,
    ChoicesBody,
    CompletedBody,
    CompleteRequest,
    CompleteRequestBase,
    ConnectBody,
    ConnectRequest,
    DefaultBoardBody,
)
from socialpub.domain.schemas.common import DeletedBody, ProfileQuery
from socialpub.platforms.contract import Board
from socialpub.store.rows import AccountRow
from socialpub.web.api.write_handlers import commit_after_lookup, commit_without_body
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import (
    ACCOUNT_ID,
    AUTHORIZE_URL,
    DISPLAY_NAME,
    OAUTH_PLATFORM,
    PLATFORM,
    PLATFORM_ACCOUNT_ID,
    PROFILE_ID,
    STATE,
)

CONNECT_ERRORS = ("not_found", "platform_not_enabled")
UPSTREAM_ERRORS = ("platform_auth_failed", "platform_rejected", "platform_unavailable")
BOARD_ERRORS = ("not_found", "account.platform", "platform_auth_failed", "platform_unavailable")

ACCOUNT: AccountBody = {
    "id": ACCOUNT_ID,
    "profileId": PROFILE_ID,
    "platform": PLATFORM,
    "platformAccountId": PLATFORM_ACCOUNT_ID,
    "displayName": DISPLAY_NAME,
    "status": "active",
    "createdAt": "2026-09-24T07:15:02.431Z",
    "updatedAt": "2026-09-24T07:15:02.431Z",
    "tokenExpiresAt": None,
}


ACCOUNTS: AccountList = {"data": [ACCOUNT]}
LIST = Operation(
    "Accounts",
    "listAccounts",
    "List connected accounts",
    query=AccountsQuery,
    answers={200: SuccessResponse(AccountList, "The accounts.", ACCOUNTS)},
    links={"readAccount": "/data/0/id"},
)


async def list_accounts(call: RequestContext) -> HandlerResponse:
    """GET /v1/accounts."""
    scope, query = call.scope, call.query(AccountsQuery)
    return HandlerResponse(
        await call.read(lambda: dumps(AccountList(data=accounts.list_bodies(scope, query))).encode())
    )


READ = Operation(
    "Accounts",
    "readAccount",
    "Read one account",
    query=ProfileQuery,
    answers={200: SuccessResponse(AccountBody, "The account.", ACCOUNT)},
    errors=("not_found",),
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/accounts/{id}."""
    scope, account = call.profile_scope, call.path_value("account_id")
    return HandlerResponse(await call.read_inline(lambda: dumps(accounts.get_body(scope, account)).encode()))


# --- Connecting --------------------------------------------------------------------------------------------------


def check_platform(service: AppContext, parts: Mapping[str, str]) -> None:
    """Raise an ApiError if the platform cannot be connected. Runs before the role check."""
    if parts["platform"] in platforms.PLATFORMS:
        connect.get_ready_platform(service, parts["platform"])


CONNECT_START: ConnectBody = {
    "platform": OAUTH_PLATFORM,
    "state": "stable",
    "descriptor": {"type": "oauth", "authorizeUrl": AUTHORIZE_URL},
}
START = Operation(
    "Accounts",
    "connectAccount",
    "Start connecting an account",
    "Returns either a URL of the platform to send the browser to (it comes back to `/connect/{platform}/callback`), "
    "or the fields to ask the user for.",
    body=ConnectRequest,
    requests={"in a profile": {"profileId": PROFILE_ID}},
    answers={200: SuccessResponse(ConnectBody, "The next step.", CONNECT_START)},
    errors=(*CONNECT_ERRORS, *UPSTREAM_ERRORS),
)


async def start(call: RequestContext) -> HandlerResponse:
    """POST /v1/accounts/connect/{platform}."""
    name = call.path_value("platform")

    async def begin(request: ConnectRequest) -> BoundAction:
        wanted = request.profile_id
        invited = await connect.push_login(call.service, call.scope, name, request.handle, wanted)
        return bind(call.actor, connect.start, name, wanted, invited)

    return await commit_after_lookup(call, ConnectRequest, begin)


CHOICE: ChoiceBody = {
    "id": "8d969eef6ecad3c29a3a",
    "platformAccountId": "urn:li:organization:2414183",
    "displayName": DISPLAY_NAME,
    "kind": "organization",
}
CHOICES: ChoicesBody = {"choices": [CHOICE]}
COMPLETE = Operation(
    "Accounts",
    "completeAccount",
    "Finish connecting an account",
    "Send the values that the login returned. An account that the profile already has keeps its id and gets the new "
    "authorization. If the login offers several accounts, the answer lists them as `choices`; connect each one that "
    "you want by its `choiceId` within ten minutes.",
    body=CompleteRequest,
    requests={
        "back from the platform": {"code": "AQDx…", "state": STATE},
        "a choice": {"choiceId": CHOICE["id"], "state": STATE},
        "credentials": {"handle": "bakery.example.org", "password": "abcd-efgh-ijkl-mnop"},
    },
    answers={
        200: SuccessResponse(CompletedBody, "The account, if it was connected before, or the choices.", CHOICES),
        201: SuccessResponse(AccountBody, "The new account.", ACCOUNT),
    },
    errors=(*CONNECT_ERRORS, "connect.state", *UPSTREAM_ERRORS),
)


async def complete(call: RequestContext) -> HandlerResponse:
    """POST /v1/accounts/connect/{platform}/complete."""
    name = call.path_value("platform")

    async def come_back(request: CompleteRequestBase) -> BoundAction:
        return bind(call.actor, connect.store_result, name, await connect.complete(call.actor, name, request))

    return await commit_after_lookup(call, CompleteRequest, come_back)


DISCONNECTED: DeletedBody = {"id": ACCOUNT_ID, "deleted": True}
DISCONNECT = Operation(
    "Accounts",
    "disconnectAccount",
    "Disconnect an account",
    "Deletes its secrets, cancels its queued posts and ends its authorization on the platform where possible. Its "
    "posts stay in the log. If you connect the account again, it gets its old id.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DeletedBody, "The disconnected account.", DISCONNECTED)},
    errors=("not_found",),
)


async def disconnect(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/accounts/{id}."""
    return await commit_without_body(call, lambda: bind(call.actor, connect.disconnect, call.path_value("account_id")))


# --- Boards --------------------------------------------------------------------------------------------------------


BOARD: BoardBody = {"id": "549755885175", "name": "Bread", "privacy": "PUBLIC"}
BOARDS: BoardList = {"data": [BOARD], "defaultBoardId": BOARD["id"]}
LIST_BOARDS = Operation(
    "Accounts",
    "listBoards",
    "List an account's boards",
    "Fetched from the platform with the account's own authorization.",
    query=ProfileQuery,
    answers={200: SuccessResponse(BoardList, "The boards.", BOARDS)},
    errors=BOARD_ERRORS,
)


async def list_boards(call: RequestContext) -> HandlerResponse:
    """GET /v1/accounts/{id}/pinterest/boards."""
    row = await call.service.read(lambda: accounts.find(call.profile_scope, call.path_value("account_id")))
    found = await fetch_boards(call, row)
    return HandlerResponse(boards.to_body(row, found))


async def fetch_boards(call: RequestContext, row: AccountRow) -> tuple[Board, ...]:
    """Return the account's boards from its platform.

    Raises an ApiError for the platform's error.
    """
    share = upstreams.get_share_key(call.service, row)
    return await connect.run_in_thread(call.service, share, lambda: boards.fetch(call.service, row))


DEFAULT_BOARD: DefaultBoardBody = {
    "id": ACCOUNT_ID,
    "defaultBoardId": BOARD["id"],
    "defaultBoardName": BOARD["name"],
}
CHOOSE_BOARD = Operation(
    "Accounts",
    "chooseBoard",
    "Choose an account's default board",
    "Posts that name no board go to this board. It must be one of the account's boards.",
    query=ProfileQuery,
    body=BoardRequest,
    requests={"choose": {"boardId": BOARD["id"]}},
    answers={200: SuccessResponse(DefaultBoardBody, "The default board.", DEFAULT_BOARD)},
    errors=(*BOARD_ERRORS, "pinterest.board.unknown"),
)


async def choose_board(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/accounts/{id}/pinterest/default-board."""
    account = call.path_value("account_id")

    async def look(request: BoardRequest) -> BoundAction:
        row = await call.service.read(lambda: accounts.find(call.profile_scope, account))
        board = boards.find_board(await fetch_boards(call, row), request.board_id)
        return bind(call.actor, boards.set_default, account, board)

    return await commit_after_lookup(call, BoardRequest, look)
