"""Which run of the server owns the database, and whether it may publish.

A restored or copied database says `queued` where the world says posted: it starts paused (see `copy_detection`).
"""

from __future__ import annotations

import logging
import threading

from socialpub.base import fault_injection
from socialpub.base.security.crypto import SealError
from socialpub.domain.context import storage_errors
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import notification_queue
from socialpub.domain.schemas.health import PausedReason
from socialpub.domain.server import copy_detection
from socialpub.store.database import DbFuture, FencedError, Tx
from socialpub.store.engine import sql
from socialpub.store.engine.locks import damaged_error
from socialpub.store.engine.sqlite import proxy
from socialpub.store.queries import authentication, maintenance
from socialpub.store.rows import InstanceRow
from socialpub.store.schema import snapshot
from socialpub.store.schema.models import Account, Instance, get_row

log = logging.getLogger("socialpub.jobs")

_GENERATION_LOCK = threading.Lock()

RESTORED, CLOCK, DAMAGED = "restored", "clock", "damaged"
GENERATION_SECONDS = 3600.0
SIGNING_KEY_PLACE = ("instance", "signing_key", "1")  # the place of what cursors and addresses of media are signed with


def get_resume_command(reason: str | None) -> str:
    """The command that ends a pause: after a restore it has to be told that somebody has compared."""
    return "socialpub resume --after-restore" if reason == RESTORED else "socialpub resume"


def take_over(service: AppContext, tx: Tx) -> InstanceRow:
    """Become the owner: a new epoch, which fences every older writer. The instance row as it is now."""
    Instance.insert(id=1).on_conflict_ignore().execute()
    service.runtime.vault.follow(service.runtime.vault.newest)
    load_signing_key(service, tx)
    row = get_row(Instance, 1)
    changes = {"epoch": row["epoch"] + 1, "key_id": service.runtime.vault.key_id, "moved": None}
    copied = _find_copy_reason(service, row)
    if copied and row["paused"] in (None, CLOCK):
        log.warning("this database may have been restored or copied: %s", copied)
        changes["paused"] = RESTORED
        notification_queue.enqueue_paused(service, tx, RESTORED)
    Instance.update(**changes).where(Instance.id == 1).execute()
    return get_row(Instance, 1)


def load_signing_key(service: AppContext, tx: Tx) -> None:
    """Sign with the secret of this database, which no change of the master key changes; it is made at the first time.

    It is made of the master key then: links that an older socialpub has signed stay good. StartError where the bytes
    of the secret have changed.
    """
    vault, held = service.runtime.vault, Instance.select(Instance.signing_key).where(Instance.id == 1).scalar()
    if held is None:
        Instance.update(signing_key=vault.seal(vault.signing, SIGNING_KEY_PLACE)).where(Instance.id == 1).execute()
        return
    try:
        vault.sign_with(vault.open(held, SIGNING_KEY_PLACE))
    except SealError as error:
        raise damaged_error(service.db.path, f"the secret it signs with: {error}") from error


def list_needed_keys() -> set[str]:
    """Within a read: the ids of the master keys that something lasting was sealed with."""
    return snapshot.find_required_keys(proxy.connection())


def find_key_id() -> str | None:
    """The id of the master key that seals; None before anything is sealed."""
    found: str | None = sql.fetch_value(authentication.FIND_MASTER_KEY_ID)
    return found


def use_current_key(service: AppContext) -> None:
    """In every transaction, before anything is sealed in it: with the key that the database says (`keys rotate`)."""
    _use_key(service, sql.fetch_value(authentication.FIND_MASTER_KEY_ID))


def _use_key(service: AppContext, key: str | None) -> None:
    try:
        if key:
            service.runtime.vault.follow(key)
    except SealError as error:
        raise FencedError(f"the master key was changed, and the new one ({key}) is not here: start again") from error


def check_fence(service: AppContext) -> None:
    """In every transaction: FencedError once another server, or a backup, has taken the place of what we wrote."""
    epoch, beat, key = sql.fetch_one(authentication.FIND_OWNER)
    if epoch != service.jobs.epoch:
        raise FencedError("another server has taken over this database; nothing more is written here")
    if beat < service.process.beat:
        raise FencedError("an older state was written into this database; nothing more is written here")
    _use_key(service, key)


def advance_generation(service: AppContext, *, seen: bool = True) -> None:
    """Count one beat, in the database first: a crash in between leaves the database ahead, which is harmless.

    While it may be a copy, nothing is said outside its folder: the original, if there is one, has its mark there.
    `seen`: the clock is trusted, so this is a sign of life that the next start may compare its clock with.
    """
    with _GENERATION_LOCK:  # a timer and a stop may both be at it: one file, with the newest number
        row = service.write(lambda tx: _increment_generation(service, tx, seen)).result()
        fault_injection.hit("beat.mid")
        counted = copy_detection.DatabaseGeneration(row["beat"], row["mark"])
        service.process.beat = counted.number
        settings, host = service.runtime.settings, service.runtime.host
        with storage_errors.translate():
            doubted = service.process.owed.why if service.process.owed and service.process.owed.first else ""
            outside = row["paused"] != RESTORED
            copy_detection.save_state(settings, host, row["uid"], counted, outside=outside, doubted=doubted)


def _increment_generation(service: AppContext, tx: Tx, seen: bool) -> InstanceRow:
    row = get_row(Instance, 1)
    counted = {
        "beat": row["beat"] + 1,
        "mark": service.runtime.entropy(8).hex(),
        "uid": row["uid"] or service.runtime.ids.uuid(),
        "seen_at": service.now_ms if seen else row["seen_at"],
    }
    Instance.update(**counted).where(Instance.id == 1).execute()
    return get_row(Instance, 1)


def _find_copy_reason(service: AppContext, row: InstanceRow) -> str | None:
    """Why the database may be a copy; None where there is nothing that could be sent or used up twice. StartError
    where it was handed over to another place.
    """
    settings, host, beat = (
        service.runtime.settings,
        service.runtime.host,
        copy_detection.DatabaseGeneration(row["beat"], row["mark"]),
    )
    said = copy_detection.parse_handover(row["moved"], beat, service.now_ms)
    if said is not None:
        return copy_detection.explain_copy_after_handover(settings, host, row["uid"], beat, said)
    if sql.fetch_value(maintenance.FIND_NEWEST_POST) is None and not (row["beat"] > 1 and Account.select().exists()):
        return None
    return copy_detection.explain_copy(settings, host, row["uid"], beat)


def hand_over(service: AppContext, tx: Tx) -> copy_detection.HandoverRecord:
    """The database is to run elsewhere: where it is now it starts no more, and its copy starts without a pause."""
    row = get_row(Instance, 1)
    said = copy_detection.HandoverRecord.of(
        service.runtime.settings, service.now_ms, copy_detection.DatabaseGeneration(row["beat"], row["mark"])
    )
    Instance.update(moved=said.text()).where(Instance.id == 1).execute()
    return said


def cancel_handover(tx: Tx) -> bool:
    """It stays where it is; whether it was to go."""
    return bool(Instance.update(moved=None).where(Instance.id == 1, Instance.moved.is_null(False)).execute())


def probe_write(service: AppContext, doubtful: bool) -> DbFuture[None]:
    """Whether a transaction can be written: an empty one, or where that is doubtful one with the smallest change."""
    return service.write(lambda tx: _touch(tx) if doubtful else None)


def _touch(tx: Tx) -> None:
    Instance.update(seen_at=Instance.seen_at + 1).where(Instance.id == 1).execute()


def get_newest_event_number() -> int:
    """A number that grows with everything that happens: a beat is due when it has (an idle server writes nothing)."""
    return int(sql.fetch_value(maintenance.FIND_NEWEST_EVENT) or 0)


def pause(service: AppContext, tx: Tx, reason: str) -> None:
    """Nothing is published, refreshed or delivered from now on, unless there was a reason already; people are told."""
    if Instance.update(paused=reason).where(Instance.id == 1, Instance.paused.is_null()).execute():
        notification_queue.enqueue_paused(service, tx, reason)


def resume(tx: Tx, reason: str | None) -> bool:
    """End a pause; whether this reason was the one. A copy is a database of its own from then on, with a new id."""
    changes = {"paused": None} | ({"uid": ""} if reason == RESTORED else {})
    return bool(Instance.update(**changes).where(Instance.id == 1, Instance.paused == reason).execute())


def get_pause_reason() -> PausedReason | None:
    """Why publishing is paused; None while it is not."""
    reason: PausedReason | None = Instance.select(Instance.paused).where(Instance.id == 1).scalar()
    return reason or None
