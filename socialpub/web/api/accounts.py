"""/v1/accounts: looking at them, connecting and disconnecting them, and their boards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub import platforms
from socialpub.domain.accounts import accounts, boards, connect
from socialpub.domain.accounts.connect import Invited, Offer
from socialpub.domain.core import upstreams
from socialpub.domain.core.service import Service
from socialpub.domain.shapes.accounts import (
    AccountsQuery,
    BoardRequest,
    CompleteRequest,
    Completing,
    ConnectRequest,
    back_from,
    fields_given,
)
from socialpub.platforms.contract import Board
from socialpub.store.db import Tx
from socialpub.web.api.writes import commit, commit_after
from socialpub.web.http import Call, Reply


async def listing(call: Call) -> Reply:
    """GET /v1/accounts."""
    query = call.query(AccountsQuery)
    return Reply({"data": await call.service.read(lambda: accounts.list_bodies(call.scope, query))})


async def read(call: Call) -> Reply:
    """GET /v1/accounts/{id}."""
    account = call.path_value("account_id")
    return Reply(await call.service.read(lambda: accounts.get_body(call.narrowed, account)))


# --- Connecting --------------------------------------------------------------------------------------------------


def before(service: Service, parts: Mapping[str, str]) -> None:
    """Whether this platform can be connected at all is told before who may connect it."""
    if parts["platform"] in platforms.PLATFORMS:
        connect.ready(service, parts["platform"])


async def start(call: Call) -> Reply:
    """POST /v1/accounts/connect/{platform}."""
    name = call.path_value("platform")

    async def begin(request: ConnectRequest) -> tuple[str | None, Invited | None]:
        wanted = request.profile_id
        return wanted, await connect.invite(call.service, call.scope, name, request.handle, wanted)

    def write(tx: Tx, begun: tuple[str | None, Invited | None]) -> tuple[int, Any]:
        return 200, connect.start(call.service, tx, call.scope, name, *begun)

    call.body = call.body or b"{}"
    return await commit_after(call, ConnectRequest, begin, write, secret=True)


async def complete(call: Call) -> Reply:
    """POST /v1/accounts/connect/{platform}/complete."""
    name = call.path_value("platform")

    def write(tx: Tx, offer: Offer) -> tuple[int, Any]:
        return connect.store(call.service, tx, call.scope, name, offer)

    return await commit_after(call, CompleteRequest, lambda request: _offer(call, name, request), write)


async def _offer(call: Call, name: str, request: Completing) -> Offer:
    platform = connect.ready(call.service, name)
    if platform.oauth is None and not (request.state or request.code or request.choice_id):
        fields = fields_given(platform, request)
        return await connect.by_fields(call.service, call.scope, name, fields, request.profile_id)
    state, code, choice = back_from(request)
    if choice is not None:
        return await connect.by_choice(call.service, call.scope, name, state, choice)
    return await connect.by_code(call.service, call.scope, name, state, code or "", request.iss)


async def disconnect(call: Call) -> Reply:
    """DELETE /v1/accounts/{id}."""
    account = call.path_value("account_id")
    gone: list[dict[str, Any]] = []

    def write(tx: Tx, _: Any) -> tuple[int, Any]:
        gone.append(accounts.disconnect(call.service, tx, call.narrowed, account, call.request_id))
        return 200, {"id": account, "deleted": True}

    reply = await commit(call, None, write)
    for row in gone:
        await connect.revoke(call.service, row)
    return reply


# --- Boards --------------------------------------------------------------------------------------------------------


async def list_boards(call: Call) -> Reply:
    """GET /v1/accounts/{id}/pinterest/boards."""
    row = await call.service.read(lambda: accounts.find(call.narrowed, call.path_value("account_id")))
    found = await _boards(call, row)
    return Reply(boards.body(row, found))


async def _boards(call: Call, row: dict[str, Any]) -> tuple[Board, ...]:
    share = upstreams.share_of(call.service, row)
    return await connect.aside(call.service, share, lambda: boards.listing(call.service, row))


async def choose_board(call: Call) -> Reply:
    """PATCH /v1/accounts/{id}/pinterest/default-board."""
    account = call.path_value("account_id")

    async def look(request: BoardRequest) -> Board:
        row = await call.service.read(lambda: accounts.find(call.narrowed, account))
        found = await _boards(call, row)
        return boards.chosen(found, request.board_id)

    def write(tx: Tx, board: Board) -> tuple[int, Any]:
        return 200, boards.choose(call.service, tx, call.narrowed, account, board)

    return await commit_after(call, BoardRequest, look, write)
