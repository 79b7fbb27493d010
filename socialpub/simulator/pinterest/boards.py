"""Boards: owned, shared, and for advertisements only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.pinterest.api import People, Person, instant, page, refuse
from socialpub.simulator.state import SimulatorState


@dataclass
class Board:
    """Board. `members`: accounts besides the owner that may pin to it."""

    id: str
    name: str
    owner: str
    made_at: int
    privacy: str = "PUBLIC"
    ads_only: bool = False
    members: set[str] = field(default_factory=set)
    sections: dict[str, str] = field(default_factory=dict)  # names by id

    def takes_from(self, account: str) -> bool:
        return account == self.owner or account in self.members


@dataclass
class Boards:
    """All boards."""

    lab: SimulatorState
    people: People
    by_id: dict[str, Board] = field(default_factory=dict)

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation("boards.list", ("GET",), "/v5/boards", self.list),
            Operation("boards.get", ("GET",), "/v5/boards/<board>", self.get),
        )

    def add(self, owner: Person, name: str, **more: Any) -> Board:
        """Create a board, for `POST /v5/boards` and test accounts."""
        board = Board(str(549_755_885_000 + len(self.by_id)), name, owner.id, self.lab.clock.now_ms(), **more)
        self.by_id[board.id] = board
        return board

    def add_section(self, board: Board, name: str) -> str:
        """Create a section of a board; return its id."""
        id = str(5_195_035_916_725_000_000 + sum(len(each.sections) for each in self.by_id.values()))
        board.sections[id] = name
        return id

    def check_section(self, board: Board, section: str) -> None:
        """Refuse if the board has no such section."""
        if section not in board.sections:
            raise refuse(404, 2031, "Board section not found.")

    def list(self, call: Call) -> FakeResponse:
        """List the boards that the caller may pin to, oldest first."""
        person = self.people.caller(call, "boards:read")
        wanted = call.query.get("privacy", [""])[-1]
        mine = [board for board in self.by_id.values() if board.takes_from(person.id) and board.privacy != "SECRET"]
        return page(call, [self._shown(board) for board in mine if wanted in ("", "ALL", board.privacy)], self.lab)

    def get(self, call: Call) -> FakeResponse:
        """Return a board that is visible to the caller."""
        return FakeResponse(
            200, self._shown(self.visible(call.parts["board"], self.people.caller(call, "boards:read")))
        )

    def visible(self, id: str, person: Person) -> Board:
        """Return the board; refuse if it is not visible to this person."""
        board = self.by_id.get(id)
        if board is None or (board.privacy == "SECRET" and not board.takes_from(person.id)):
            raise refuse(404, 40, "Board not found.")
        return board

    def writable(self, id: str, person: Person) -> Board:
        """Return the board; refuse if this person may not pin to it."""
        board = self.visible(id, person)
        if not board.takes_from(person.id):
            raise refuse(401, 7, "You are not permitted to access that resource.")
        if board.ads_only:
            raise refuse(400, 1, "Invalid request: this board takes ad-only Pins.")
        return board

    def _shown(self, board: Board) -> dict[str, Any]:
        return {
            "id": board.id,
            "name": board.name,
            "description": None,
            "privacy": board.privacy,
            "owner": {"username": self.people.by_id[board.owner].username},
            "is_ads_only": board.ads_only,
            "created_at": instant(board.made_at),
            "collaborator_count": len(board.members),
        }
