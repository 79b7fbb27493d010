"""Which run of the server owns the database, and whether it may publish.

A restored or copied database says `queued` where the world says posted: it starts paused (see `copies`).
"""

from __future__ import annotations

import logging
import threading

from socialpub.base import faults
from socialpub.base.crypto import SealError
from socialpub.domain.core import copies, disk, notices
from socialpub.domain.core.service import Service
from socialpub.domain.shapes.health import PausedReason
from socialpub.store import snapshot, sql
from socialpub.store.connections import proxy
from socialpub.store.db import DbFuture, FencedError, Tx
from socialpub.store.locks import damaged
from socialpub.store.models import Account, Instance, the_row
from socialpub.store.rows import InstanceRow
from socialpub.store.statements import keys, sweeps

log = logging.getLogger("socialpub.jobs")

_beating = threading.Lock()

RESTORED, CLOCK, DAMAGED = "restored", "clock", "damaged"
BEAT_SECONDS = 3600.0
SIGNING = ("instance", "signing_key", "1")  # the place of what cursors and addresses of media are signed with


def resume_command(reason: str | None) -> str:
    """The command that ends a pause: after a restore it has to be told that somebody has compared."""
    return "socialpub resume --after-restore" if reason == RESTORED else "socialpub resume"


def take_over(service: Service, tx: Tx) -> InstanceRow:
    """Become the owner: a new epoch, which fences every older writer. The instance row as it is now."""
    Instance.insert(id=1).on_conflict_ignore().execute()
    service.runtime.vault.follow(service.runtime.vault.newest)
    sign(service, tx)
    row = the_row(Instance, 1)
    changes = {"epoch": row["epoch"] + 1, "key_id": service.runtime.vault.key_id, "moved": None}
    copied = _copied(service, row)
    if copied and row["paused"] in (None, CLOCK):
        log.warning("this database may have been restored or copied: %s", copied)
        changes["paused"] = RESTORED
        notices.tell_paused(service, tx, RESTORED)
    Instance.update(**changes).where(Instance.id == 1).execute()
    return the_row(Instance, 1)


def sign(service: Service, tx: Tx) -> None:
    """Sign with the secret of this database, which no change of the master key changes; it is made at the first time.

    It is made of the master key then: links that an older socialpub has signed stay good. StartError where the bytes
    of the secret have changed.
    """
    vault, held = service.runtime.vault, Instance.select(Instance.signing_key).where(Instance.id == 1).scalar()
    if held is None:
        Instance.update(signing_key=vault.seal(vault.signing, SIGNING)).where(Instance.id == 1).execute()
        return
    try:
        vault.sign_with(vault.open(held, SIGNING))
    except SealError as error:
        raise damaged(service.db.path, f"the secret it signs with: {error}") from error


def needed_keys() -> set[str]:
    """Within a read: the ids of the master keys that something lasting was sealed with."""
    return snapshot.keys_needed(proxy.connection())


def key_id() -> str | None:
    """The id of the master key that seals; None before anything is sealed."""
    found: str | None = sql.value(keys.SEALS)
    return found


def follow_key(service: Service) -> None:
    """In every transaction, before anything is sealed in it: with the key that the database says (`keys rotate`)."""
    _follow(service, sql.value(keys.SEALS))


def _follow(service: Service, key: str | None) -> None:
    try:
        if key:
            service.runtime.vault.follow(key)
    except SealError as error:
        raise FencedError(f"the master key was changed, and the new one ({key}) is not here: start again") from error


def fence(service: Service) -> None:
    """In every transaction: FencedError once another server, or a backup, has taken the place of what we wrote."""
    epoch, beat, key = sql.first(keys.FENCE)
    if epoch != service.jobs.epoch:
        raise FencedError("another server has taken over this database; nothing more is written here")
    if beat < service.process.beat:
        raise FencedError("an older state was written into this database; nothing more is written here")
    _follow(service, key)


def beat(service: Service, *, seen: bool = True) -> None:
    """Count one beat, in the database first: a crash in between leaves the database ahead, which is harmless.

    While it may be a copy, nothing is said outside its folder: the original, if there is one, has its mark there.
    `seen`: the clock is trusted, so this is a sign of life that the next start may compare its clock with.
    """
    with _beating:  # a timer and a stop may both be at it: one file, with the newest number
        row = service.write(lambda tx: _count(service, tx, seen)).result()
        faults.hit("beat.mid")
        counted = copies.Beat(row["beat"], row["mark"])
        service.process.beat = counted.number
        settings, host = service.runtime.settings, service.runtime.host
        with disk.told():
            doubted = service.process.owed.why if service.process.owed and service.process.owed.first else ""
            outside = row["paused"] != RESTORED
            copies.leave(settings, host, row["uid"], counted, outside=outside, doubted=doubted)


def _count(service: Service, tx: Tx, seen: bool) -> InstanceRow:
    row = the_row(Instance, 1)
    counted = {
        "beat": row["beat"] + 1,
        "mark": service.runtime.entropy(8).hex(),
        "uid": row["uid"] or service.runtime.ids.uuid(),
        "seen_at": service.now_ms if seen else row["seen_at"],
    }
    Instance.update(**counted).where(Instance.id == 1).execute()
    return the_row(Instance, 1)


def _copied(service: Service, row: InstanceRow) -> str | None:
    """Why the database may be a copy; None where there is nothing that could be sent or used up twice. StartError
    where it was handed over to another place.
    """
    settings, host, beat = service.runtime.settings, service.runtime.host, copies.Beat(row["beat"], row["mark"])
    said = copies.moved(row["moved"], beat, service.now_ms)
    if said is not None:
        return copies.why_not_moved(settings, host, row["uid"], beat, said)
    if sql.value(sweeps.ANY_POST) is None and not (row["beat"] > 1 and Account.select().exists()):
        return None
    return copies.why(settings, host, row["uid"], beat)


def hand_over(service: Service, tx: Tx) -> copies.Moved:
    """The database is to run elsewhere: where it is now it starts no more, and its copy starts without a pause."""
    row = the_row(Instance, 1)
    said = copies.Moved.of(service.runtime.settings, service.now_ms, copies.Beat(row["beat"], row["mark"]))
    Instance.update(moved=said.text()).where(Instance.id == 1).execute()
    return said


def take_back(tx: Tx) -> bool:
    """It stays where it is; whether it was to go."""
    return bool(Instance.update(moved=None).where(Instance.id == 1, Instance.moved.is_null(False)).execute())


def try_to_write(service: Service, doubtful: bool) -> DbFuture[None]:
    """Whether a transaction can be written: an empty one, or where that is doubtful one with the smallest change."""
    return service.write(lambda tx: _touch(tx) if doubtful else None)


def _touch(tx: Tx) -> None:
    Instance.update(seen_at=Instance.seen_at + 1).where(Instance.id == 1).execute()


def news() -> int:
    """A number that grows with everything that happens: a beat is due when it has (an idle server writes nothing)."""
    return int(sql.value(sweeps.NEWEST_EVENT) or 0)


def pause(service: Service, tx: Tx, reason: str) -> None:
    """Nothing is published, refreshed or delivered from now on, unless there was a reason already; people are told."""
    if Instance.update(paused=reason).where(Instance.id == 1, Instance.paused.is_null()).execute():
        notices.tell_paused(service, tx, reason)


def resume(tx: Tx, reason: str | None) -> bool:
    """End a pause; whether this reason was the one. A copy is a database of its own from then on, with a new id."""
    changes = {"paused": None} | ({"uid": ""} if reason == RESTORED else {})
    return bool(Instance.update(**changes).where(Instance.id == 1, Instance.paused == reason).execute())


def paused() -> PausedReason | None:
    """Why publishing is paused; None while it is not."""
    reason: PausedReason | None = Instance.select(Instance.paused).where(Instance.id == 1).scalar()
    return reason or None
