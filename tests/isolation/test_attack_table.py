"""Attack table of docs/promises.md: every attack has its row, and every row holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.isolation import attack_measurement
from tests.support.isolation.attack_measurement import ROWS, AttackResult, read_attack_table, write_attack_row


def test_each_attack_has_its_row_in_the_promises() -> None:
    told = read_attack_table()
    assert list(told) == [title for title, _ in ROWS.values()]
    assert {cells[-1] for cells in told.values()} == {"yes"}


def test_a_row_is_written_in_place_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, before = attack_measurement.PROMISES.read_text(), read_attack_table()
    monkeypatch.setattr(attack_measurement, "PROMISES", tmp_path / "promises.md")
    attack_measurement.PROMISES.write_text(there)
    title = ROWS["ids"][0]
    quick = dict.fromkeys(("publish", "upload", "list"), 40.0)
    write_attack_row(AttackResult(title, 7, {"400": 7}, quick, quick, [], 30, [], 12.0, 3.0, 1.0).told())
    cells = ["7 sent: 7 × 400", *["40 → 40"] * 3, "30", "12 (3 after)", "1.0", "yes"]
    assert read_attack_table() == before | {title: cells}
    slow = dict.fromkeys(quick, 4000.0)
    write_attack_row(AttackResult(title, 7, {"400": 7}, quick, slow, [], 30, [], 12.0, 3.0, 1.0).told())
    assert read_attack_table()[title][-1] == "**not yet**"
    assert attack_measurement.PROMISES.read_text().count("\n") == there.count("\n")
