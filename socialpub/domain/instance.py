"""Which run of the server owns the database, and whether it may publish.

A restored or copied database says `queued` where the world says posted. So a counter and a random mark are written to
the database and to `{data_dir}/instance.state`; a database behind that file, or without it, starts paused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from peewee import fn

from socialpub.base import faults
from socialpub.domain import clockwatch
from socialpub.domain.service import Service
from socialpub.store.db import FencedError, Tx
from socialpub.store.locks import StartError
from socialpub.store.models import Account, Event, Instance, Post

RESTORED, CLOCK = "restored", "clock"
BEAT_SECONDS = 3600.0


def take_over(service: Service, tx: Tx) -> dict[str, Any]:
    """Become the owner: a new epoch, which fences every older writer. The instance row as it is now."""
    Instance.insert(id=1).on_conflict_ignore().execute()
    row = Instance.select().where(Instance.id == 1).dicts().get()
    key = row["key_id"] or service.runtime.vault.key_id
    changes = {"epoch": row["epoch"] + 1, "key_id": key}
    if row["paused"] in (None, CLOCK) and _is_a_copy(service, row):
        changes["paused"] = RESTORED
    elif row["paused"] is None and clockwatch.was_away(row["seen_at"], service.now_ms):
        changes["paused"] = CLOCK
    Instance.update(**changes).where(Instance.id == 1).execute()
    return dict(row | changes)


def needed_keys() -> set[str]:
    """The ids of the master keys that something here was sealed with (also before the newest migrations)."""
    if not Account.table_exists():
        return set()
    named = (
        Instance.select(Instance.key_id),
        Instance.select(_key_of(Instance.client_key)),
        Account.select(_key_of(Account.secret)).distinct(),
    )
    return {row[0] for query in named for row in query.tuples() if row[0]}


def _key_of(sealed: Any) -> Any:
    return fn.SUBSTR(sealed, 4, 8)  # v1.<key id>.…, as `crypto.Vault` seals


def fence(epoch: int) -> None:
    """In every transaction: FencedError once another server has taken the database over."""
    if Instance.select(Instance.epoch).where(Instance.id == 1).scalar() != epoch:
        raise FencedError("another server has taken over this database; nothing more is written here")


def beat(service: Service) -> None:
    """Count one beat, in the database first: a crash in between leaves the database ahead, which is harmless."""
    number, mark = service.write(lambda tx: _count(service)).result()
    faults.hit("beat.mid")
    _write_state(_state_file(service), {"beat": number, "mark": mark})


def _count(service: Service) -> tuple[int, str]:
    number = int(Instance.select(Instance.beat).where(Instance.id == 1).scalar()) + 1
    mark = service.runtime.entropy(8).hex()
    Instance.update(beat=number, mark=mark, seen_at=service.now_ms).where(Instance.id == 1).execute()
    return number, mark


def _is_a_copy(service: Service, row: dict[str, Any]) -> bool:
    if not Post.select().exists():
        return False
    state = _read_state(_state_file(service))
    if state is None or row["beat"] < state["beat"]:
        return True
    return bool(row["beat"] == state["beat"] and row["mark"] != state["mark"])


def _state_file(service: Service) -> Path:
    return service.runtime.settings.data_dir / "instance.state"


def _read_state(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"beat": int(found["beat"]), "mark": str(found["mark"])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StartError(f"{path} cannot be read ({error}); remove it to start paused") from error


def _write_state(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".fresh")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def news() -> int:
    """A number that grows with everything that happens: a beat is due when it has (an idle server writes nothing)."""
    return int(Event.select(fn.MAX(Event.number)).scalar() or 0)


def pause(reason: str) -> None:
    """Nothing is published, refreshed or delivered from now on, unless there was a reason already."""
    Instance.update(paused=reason).where(Instance.id == 1, Instance.paused.is_null()).execute()


def resume(reason: str | None) -> bool:
    """End a pause; whether this reason was the one."""
    return bool(Instance.update(paused=None).where(Instance.id == 1, Instance.paused == reason).execute())


def paused() -> str | None:
    """Why publishing is paused; None while it is not."""
    reason = Instance.select(Instance.paused).where(Instance.id == 1).scalar()
    return str(reason) if reason else None
