"""Boards of an account, and its default board."""

from __future__ import annotations

import json
from typing import cast

from socialpub import platforms
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access.actor import Actor
from socialpub.domain.accounts import accounts
from socialpub.domain.accounts.connector_session import ConnectorSession, StorageError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.accounts import BoardBody, BoardList, DefaultBoardBody
from socialpub.platforms.contract import Board, SupportsBoards
from socialpub.store.database import Tx
from socialpub.store.rows import AccountRow
from socialpub.store.schema.models import Account


def get_connector(row: AccountRow) -> SupportsBoards:
    """Return the connector that lists boards. Raises ApiError `account.platform`."""
    connector = platforms.CONNECTORS.get(row["platform"])
    if not has_boards(row["platform"]):
        raise rule_error("account.platform")
    return cast(SupportsBoards, connector)


def has_boards(platform: str) -> bool:
    """Return whether the platform has boards."""
    return hasattr(platforms.CONNECTORS.get(platform), "boards")


def find_default_name(row: AccountRow) -> str | None:
    """Return the name of the default board, or its id, or None."""
    extra = json.loads(row["extra"])
    name: str | None = extra.get("defaultBoardName") or extra.get("defaultBoardId")
    return name


def fetch(service: AppContext, row: AccountRow) -> tuple[Board, ...]:
    """List the boards from the platform; blocks. Raises ApiError from the platform's response."""
    platform_boards = get_connector(row)
    accounts.check_enabled(service, platforms.platform(row["platform"]))
    if row["status"] == "revoked":
        raise rule_error("account.reconnect_required")
    caller = ConnectorSession(service, row)
    try:
        return caller.call(platform_boards.boards)
    except StorageError as error:
        raise rule_error("storage.unavailable") from error
    except ApiError as error:
        error.platform_response = caller.redact(error.platform_response)
        error.platform = error.platform or row["platform"]
        raise


def to_body(row: AccountRow, boards: tuple[Board, ...]) -> BoardList:
    """Build the body of GET …/boards."""
    bodies: list[BoardBody] = [{"id": board.id, "name": board.name, "privacy": board.privacy} for board in boards]
    return {"data": bodies, "defaultBoardId": json.loads(row["extra"]).get("defaultBoardId")}


def find_board(boards: tuple[Board, ...], board: str) -> Board:
    """Find a board to publish on by id. Raises ApiError `pinterest.board.unknown`."""
    found = next((one for one in boards if one.id == board), None)
    if found is None:
        raise rule_error("pinterest.board.unknown")
    if not found.pinnable:
        raise rule_error("pinterest.board.unknown", "Nothing can be published on this board.")
    return found


def set_default(tx: Tx, who: Actor, account: str, board: Board) -> DefaultBoardBody:
    """Make a board the default; return `{id, defaultBoardId, defaultBoardName}`."""
    row = accounts.find(who.scope, account)
    default = {"defaultBoardId": board.id, "defaultBoardName": board.name}
    Account.update(extra=json.dumps(json.loads(row["extra"]) | default), updated_at=who.service.now_ms).where(
        Account.id == account
    ).execute()
    return {"id": account, "defaultBoardId": board.id, "defaultBoardName": board.name}
