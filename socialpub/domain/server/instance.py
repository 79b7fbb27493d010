"""Ownership of the database by one run of the server, and the pause of publishing.

A restored or copied database may have posts as `queued` that are published by now: it starts paused (`copy_detection`).
"""

from __future__ import annotations

import logging
import threading

from socialpub.base import fault_injection
from socialpub.base.config import Settings
from socialpub.base.errors import ApiError
from socialpub.base.security.crypto import SealError
from socialpub.base.system import host_identity
from socialpub.domain.context import storage_errors
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import notification_queue
from socialpub.domain.schemas.health import PausedReason
from socialpub.domain.server import copy_detection
from socialpub.store.database import DbFuture, FencedError, Tx
from socialpub.store.engine import sql
from socialpub.store.engine.locks import StartError, damaged_error
from socialpub.store.engine.sqlite import proxy
from socialpub.store.queries import authentication, maintenance
from socialpub.store.rows import InstanceRow
from socialpub.store.schema import snapshot
from socialpub.store.schema.models import Account, Instance, find_row, get_row

log = logging.getLogger("socialpub.jobs")

_GENERATION_LOCK = threading.Lock()

RESTORED, CLOCK, DAMAGED = "restored", "clock", "damaged"
GENERATION_SECONDS = 3600.0
SIGNING_KEY_PLACE = ("instance", "signing_key", "1")  # it signs cursors and media URLs


def get_resume_command(reason: str | None) -> str:
    """Return the command that ends a pause."""
    return "socialpub resume --after-restore" if reason == RESTORED else "socialpub resume"


def take_over(service: AppContext, tx: Tx) -> InstanceRow:
    """Take over the database with a new epoch, which fences older writers; return its row."""
    Instance.insert(id=1).on_conflict_ignore().execute()
    service.runtime.vault.use_key(service.runtime.vault.newest)
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
    """Load the signing secret of the database; create it at first.

    It does not change with the master key, but is first derived from it, so that links signed by older versions stay
    valid. Raises StartError if the stored secret is damaged.
    """
    vault, stored = service.runtime.vault, Instance.select(Instance.signing_key).where(Instance.id == 1).scalar()
    if stored is None:
        Instance.update(signing_key=vault.seal(vault.signing, SIGNING_KEY_PLACE)).where(Instance.id == 1).execute()
        return
    try:
        vault.sign_with(vault.open(stored, SIGNING_KEY_PLACE))
    except SealError as error:
        raise damaged_error(service.db.path, f"its signing secret: {error}") from error


def list_needed_keys() -> set[str]:
    """List the ids of the master keys that stored values need. Call within a read."""
    return snapshot.find_required_keys(proxy.connection())


def find_key_id() -> str | None:
    """Return the id of the current master key; None before anything is encrypted."""
    key: str | None = sql.fetch_value(authentication.FIND_MASTER_KEY_ID)
    return key


def use_current_key(service: AppContext) -> None:
    """Use the database's current master key (see `key_rotation`). Called in every transaction."""
    _use_key(service, sql.fetch_value(authentication.FIND_MASTER_KEY_ID))


def _use_key(service: AppContext, key: str | None) -> None:
    try:
        if key:
            service.runtime.vault.use_key(key)
    except SealError as error:
        raise FencedError(
            f"the master key was changed and this process does not have the new one ({key}): restart it"
        ) from error


def check_fence(service: AppContext) -> int:
    """Return a number that changes with each commit of another process, which is a command.

    Raises FencedError if another server took over or the database was replaced.
    """
    epoch, beat, key, foreign_version = sql.fetch_one(authentication.FIND_OWNER)
    if epoch != service.jobs.epoch:
        raise FencedError("another server has taken over this database; this process writes nothing more")
    if beat < service.process.beat:
        raise FencedError("the database was replaced by an older state; this process writes nothing more")
    _use_key(service, key)
    return int(foreign_version)


def advance_generation(service: AppContext, *, seen: bool = True) -> None:
    """Record a heartbeat, in the database first: a crash in between is harmless then.

    A database that may be a copy writes no mark outside: the mark there is the original's. `seen`: store the time too,
    for the next start to compare its clock with; False while the clock is in doubt.
    """
    with _GENERATION_LOCK:  # a periodic task and a stop may run at once
        row = service.write(lambda tx: _increment_generation(service, tx, seen)).result()
        fault_injection.hit("beat.mid")
        generation = _get_generation(row)
        service.process.beat = generation.number
        settings, host = service.runtime.settings, service.runtime.host
        with storage_errors.translate():
            pending = service.process.pending_check
            doubted = pending.why if pending and pending.first else ""
            outside = row["paused"] != RESTORED
            copy_detection.save_state(settings, host, row["uid"], generation, outside=outside, doubted=doubted)


def _increment_generation(service: AppContext, tx: Tx, seen: bool) -> InstanceRow:
    row = get_row(Instance, 1)
    changes = {
        "beat": row["beat"] + 1,
        "mark": service.runtime.entropy(8).hex(),
        "uid": row["uid"] or service.runtime.ids.uuid(),
        "seen_at": service.now_ms if seen else row["seen_at"],
    }
    Instance.update(**changes).where(Instance.id == 1).execute()
    return get_row(Instance, 1)


def _get_generation(row: InstanceRow) -> copy_detection.DatabaseGeneration:
    return copy_detection.DatabaseGeneration(row["beat"], row["mark"])


def _find_copy_reason(service: AppContext, row: InstanceRow) -> str | None:
    """Return why the database may be a copy; None if not, or if it has nothing to publish.

    Raises StartError if it was handed over to another place.
    """
    settings, host = service.runtime.settings, service.runtime.host
    generation = _get_generation(row)
    record = copy_detection.parse_handover(row["moved"], generation)
    if record is not None:
        if copy_detection.is_handed_over(settings, host, row["uid"], generation, record):
            raise StartError(f"{settings.database_path} {_HANDED_OVER_MESSAGE}")
        if record.is_recent(service.now_ms):
            return copy_detection.explain_copy_after_handover(settings, host, row["uid"], generation)
    if sql.fetch_value(maintenance.FIND_NEWEST_POST) is None and not (row["beat"] > 1 and Account.select().exists()):
        return None
    return copy_detection.explain_copy(settings, host, row["uid"], generation)


_HANDED_OVER_MESSAGE = (
    "was handed over by `socialpub move`: start it at its new place. If it is to stay here, and was not started "
    "anywhere else: socialpub move --back. Nothing was changed."
)


def hand_over(service: AppContext, tx: Tx) -> copy_detection.HandoverRecord:
    """Hand the database over: it no longer starts here, and its copy starts unpaused.

    Raises ApiError before the first start: without `instance.state`, a start here could not be refused.
    """
    row = find_row(Instance, 1)
    if row is None or not row["beat"]:  # a command makes the row, too
        words, remedy = f"No server has run on {service.db.path} yet.", "Copy the folder, and start it elsewhere."
        raise ApiError("validation_failed", words, rule="state", status=409, remediation=remedy)
    record = copy_detection.HandoverRecord.of(service.runtime.settings, service.now_ms, _get_generation(row))
    Instance.update(moved=record.encode()).where(Instance.id == 1).execute()
    return record


def is_handed_over(settings: Settings) -> bool:
    """Return whether a start is refused after a handover. Call within a read."""
    row = find_row(Instance, 1)
    if row is None:
        return False
    generation = _get_generation(row)
    record = copy_detection.parse_handover(row["moved"], generation)
    host = host_identity.identify_host()
    return record is not None and copy_detection.is_handed_over(settings, host, row["uid"], generation, record)


def cancel_handover(tx: Tx) -> bool:
    """Cancel a handover; return whether there was one."""
    return bool(Instance.update(moved=None).where(Instance.id == 1, Instance.moved.is_null(False)).execute())


def probe_write(service: AppContext, doubtful: bool) -> DbFuture[None]:
    """Test writing: commit an empty transaction, or a small change if `doubtful`."""
    return service.write(lambda tx: _touch(tx) if doubtful else None)


def _touch(tx: Tx) -> None:
    Instance.update(seen_at=Instance.seen_at + 1).where(Instance.id == 1).execute()


def get_newest_event_number() -> int:
    """Return the number of the newest event, which shows whether a heartbeat is due."""
    return int(sql.fetch_value(maintenance.FIND_NEWEST_EVENT) or 0)


def pause(service: AppContext, tx: Tx, reason: str) -> None:
    """Pause publishing, refreshes and deliveries and notify people, unless paused already."""
    if Instance.update(paused=reason).where(Instance.id == 1, Instance.paused.is_null()).execute():
        notification_queue.enqueue_paused(service, tx, reason)


def resume(tx: Tx, reason: str | None) -> bool:
    """End the pause with this reason; return whether there was one.

    A restored database gets a new id, because the original may still run.
    """
    changes = {"paused": None} | ({"uid": ""} if reason == RESTORED else {})
    return bool(Instance.update(**changes).where(Instance.id == 1, Instance.paused == reason).execute())


def get_pause_reason() -> PausedReason | None:
    """Return why publishing is paused, or None."""
    reason: PausedReason | None = Instance.select(Instance.paused).where(Instance.id == 1).scalar()
    return reason or None
