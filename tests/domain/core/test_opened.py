"""Tokens that were opened a moment ago are kept opened: few, not for long, and never past what the row has."""

from __future__ import annotations

import pytest

from socialpub.base.crypto import Vault
from socialpub.domain.core.service import OPENED_KEPT, OPENED_SECONDS, Opened
from socialpub.platforms.contract import Tokens
from tests.kit import Person, Server


class Row:
    """What is sealed in rows, and how often it was opened."""

    def __init__(self) -> None:
        self.now, self.times = 0.0, 0
        self.opened = Opened(lambda: self.now)

    def get(self, account: str, sealed: str) -> str:
        return self.opened.get(account, sealed, lambda: self._open(sealed)).access

    def _open(self, sealed: str) -> Tokens:
        self.times += 1
        return Tokens(f"opened {sealed}")


def test_what_was_sealed_anew_is_opened_anew() -> None:
    row = Row()
    assert [row.get("a", "one"), row.get("a", "one"), row.get("a", "two")] == ["opened one", "opened one", "opened two"]
    assert row.times == 2
    assert (row.get("b", "two"), row.times) == ("opened two", 3)


def test_it_is_kept_for_a_moment() -> None:
    row = Row()
    row.get("a", "one")
    row.now = OPENED_SECONDS - 1
    row.get("b", "two")
    assert row.times == 2
    row.now = OPENED_SECONDS
    row.get("c", "three")
    assert [account for account, _ in row.opened._kept] == ["b", "c"]
    row.get("a", "one")
    assert row.times == 4


def test_few_are_kept() -> None:
    row = Row()
    for number in range(OPENED_KEPT + 5):
        row.get(f"account {number}", "sealed")
    assert len(row.opened._kept) == OPENED_KEPT
    row.get(f"account {OPENED_KEPT + 4}", "sealed")
    assert row.times == OPENED_KEPT + 5
    row.get("account 0", "sealed")
    assert row.times == OPENED_KEPT + 6


def test_posts_one_after_the_other_open_the_tokens_once(
    server: Server, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, open_ = list[tuple[str, str, str]](), Vault.open

    def counted(vault: Vault, sealed: str, place: tuple[str, str, str]) -> bytes:
        places.append(place)
        return open_(vault, sealed, place)

    monkeypatch.setattr(Vault, "open", counted)
    for number in range(3):
        body = {"text": f"number {number}", "targets": [{"accountId": alice.bluesky}]}
        assert alice.api.publish(body).json()["status"] == "published"
    assert places.count(("account", "secret", alice.bluesky)) == 1
