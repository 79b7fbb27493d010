"""Rotation of the master key while the server runs.

The new key is first in the key file before anything is encrypted with it; the old one stays there until no value needs
it. The database names the current key, and every transaction reads that first: once `start` is committed, no process
encrypts with the old key. A rotation that is killed at any point can be repeated.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from socialpub.base import fault_injection, runtime
from socialpub.base.errors import ApiError
from socialpub.base.security import crypto, master_key_file
from socialpub.base.security.crypto import MasterKey, SealError
from socialpub.domain.access.actor import Actor
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.server import instance
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries.encrypted_columns import ENCRYPTED_COLUMNS, EncryptedColumn
from socialpub.store.schema.models import Instance

log = logging.getLogger("socialpub.keys")

BATCH = 100  # values per transaction
BEFORE_FIRST = -1  # sorts before every id, numeric or text


@dataclass(frozen=True)
class RotationResult:
    """Number of re-encrypted values, ids of keys still needed, and files of retired keys."""

    reencrypted: int
    needed: list[str]
    retired: list[str]


@dataclass
class RotationProgress:
    """Progress of a rotation. `report`: called with the numbers of values checked and in total."""

    report: Callable[[int, int], None]
    total: int = 0
    checked: int = 0
    reencrypted: int = 0


def start(tx: Tx, who: Actor) -> dict[str, Any]:
    """Encrypt with the newest key from now on; return `{keyId, was}`: new and previous id."""
    service, before = who.service, instance.find_key_id()
    Instance.insert(id=1).on_conflict_ignore().execute()  # if no server ever ran
    instance.load_signing_key(service, tx)
    new = _find_newest_key(service)
    service.runtime.vault.use_key(new.id)
    Instance.update(key_id=new.id).where(Instance.id == 1).execute()
    return {"keyId": new.id, "was": before}


def _find_newest_key(service: AppContext) -> MasterKey:
    """Return the first of the configured keys, or of a key file with several, or a new one."""
    configured, path = service.runtime.settings.security.encryption_keys, service.runtime.settings.key_file
    if configured:
        return crypto.parse_master_key(configured[0])
    keys = runtime.read_key_file(path)
    if len(keys) == 1:
        keys = [MasterKey(service.runtime.entropy(32)), *keys]
        master_key_file.write(path, keys)
        fault_injection.hit("rotate.file")
    return keys[0]


def reencrypt_all(service: AppContext, report: Callable[[int, int], None]) -> RotationResult:
    """Re-encrypt all values with the current key; retire the old keys once no value needs them."""
    progress = RotationProgress(report)
    while True:
        before = progress.reencrypted
        _run_pass(service, progress)
        needed, retired = service.write(lambda tx: _finish(service)).result()
        if not needed or progress.reencrypted == before:
            return RotationResult(progress.reencrypted, needed, retired)


def _run_pass(service: AppContext, progress: RotationProgress) -> None:
    progress.checked, progress.total = 0, service.read(_count_values).result()
    for each in ENCRYPTED_COLUMNS:
        after: object = BEFORE_FIRST
        while after is not None:
            after = service.write(functools.partial(_reencrypt_batch, service, each, after, progress)).result()
            fault_injection.hit("rotate.part")


def _count_values() -> int:
    return sum(int(sql.fetch_value(each.count)) for each in ENCRYPTED_COLUMNS if each.lasting)


def _reencrypt_batch(
    service: AppContext, each: EncryptedColumn, after: object, progress: RotationProgress, tx: Tx
) -> object:
    """Re-encrypt a batch of values; return the id to continue after, or None at the end."""
    rows = sql.fetch_all(each.part, (after, BATCH))
    count = sum(_reencrypt_value(service, each, row, value) for row, value in rows)
    tx.after_commit(lambda: _add_progress(progress, len(rows), count))
    return rows[-1][0] if len(rows) == BATCH else None


def _add_progress(progress: RotationProgress, checked: int, reencrypted: int) -> None:
    progress.checked, progress.reencrypted = progress.checked + checked, progress.reencrypted + reencrypted
    progress.report(progress.checked, progress.total)


def _reencrypt_value(service: AppContext, each: EncryptedColumn, row: object, value: str) -> bool:
    """Re-encrypt a value; return False if it is current already, or cannot be decrypted."""
    vault = service.runtime.vault
    if value.startswith(f"v1.{vault.key_id}."):
        return False
    try:
        fresh = vault.reseal(value, (each.table, each.bound, str(row)))
    except SealError as error:
        log.error("%s %s: %s cannot be re-encrypted: %s", each.table, row, each.column, error)
        return False
    return bool(sql.update(each.update, (fresh, row, value)))


def _finish(service: AppContext) -> tuple[list[str], list[str]]:
    """Return the old keys still needed; if none is, retire them and return their files."""
    current = instance.find_key_id()
    needed = sorted({key for each in ENCRYPTED_COLUMNS for (key,) in sql.fetch_all(each.keys)} - {current})
    return needed, [] if needed else _retire_old_keys(service)


def _retire_old_keys(service: AppContext) -> list[str]:
    """Move the old keys out of the key file, if there is one; return their new files."""
    settings = service.runtime.settings
    if settings.security.encryption_keys:
        return []
    new, *old = runtime.read_key_file(settings.key_file)
    files = [str(master_key_file.save_retired_key(settings.key_file, key)) for key in old]
    fault_injection.hit("rotate.aside")
    if old:
        master_key_file.write(settings.key_file, [new])
    return files


def check_rotatable(service: AppContext, *, running: bool) -> None:
    """Raise ApiError if the settings have no new key, or the server has not loaded it."""
    configured = service.runtime.settings.security.encryption_keys
    if not configured:
        return
    new = crypto.parse_master_key(configured[0]).id
    if running and service.read(instance.find_key_id).result() != new:
        raise ApiError("validation_failed", _NOT_LOADED_MESSAGE)
    if len(configured) == 1 and service.read(instance.list_needed_keys).result() <= {new}:
        raise ApiError("validation_failed", _NO_NEW_KEY_MESSAGE)


_NOT_LOADED_MESSAGE = (
    "The running server does not use the first key of security.encryption_keys yet: restart it with these settings, "
    "then run this command again."
)
_NO_NEW_KEY_MESSAGE = (
    "The master keys are in the settings: put a new one first in security.encryption_keys, keep the old one after it, "
    "restart the server, then run this command again. To make a key: openssl rand -base64 32"
)
