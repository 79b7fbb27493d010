"""A new master key in place of the old one, beside a running server.

The new key stands first in the key file before anything is sealed with it, and the old one stays there until nothing
needs it. The database says which key seals, and every transaction looks there first: once `start` is committed nobody
seals with the old one any more. It can be killed anywhere, and is done again: what is sealed anew stays so.
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

BATCH = 100  # values in one transaction
BEFORE_FIRST = -1  # before every id, of numbers and of texts


@dataclass(frozen=True)
class RotationResult:
    """`anew`: values that were sealed anew. `left`: keys that are still needed. `aside`: files with the old ones."""

    anew: int
    left: list[str]
    aside: list[str]


@dataclass
class RotationProgress:
    """What has been done. `told`: so many of so many were looked at."""

    told: Callable[[int, int], None]
    total: int = 0
    seen: int = 0
    anew: int = 0


def start(tx: Tx, who: Actor) -> dict[str, Any]:
    """`{keyId, was}`: the id of the key that seals from now on, and of the one that did."""
    service, before = who.service, instance.find_key_id()
    Instance.insert(id=1).on_conflict_ignore().execute()  # nothing was ever served
    instance.load_signing_key(service, tx)
    new = _find_newest_key(service)
    service.runtime.vault.follow(new.id)
    Instance.update(key_id=new.id).where(Instance.id == 1).execute()
    return {"keyId": new.id, "was": before}


def _find_newest_key(service: AppContext) -> MasterKey:
    """The first of the settings; else the first of a key file with several, whose rotation goes on; else a new one."""
    named, path = service.runtime.settings.security.encryption_keys, service.runtime.settings.key_file
    if named:
        return crypto.parse_master_key(named[0])
    held = runtime.read_key_file(path)
    if len(held) == 1:
        held = [MasterKey(service.runtime.entropy(32)), *held]
        master_key_file.write(path, held)
        fault_injection.hit("rotate.file")
    return held[0]


def reencrypt_all(service: AppContext, told: Callable[[int, int], None]) -> RotationResult:
    """Seal everything anew, until nothing is left that another key is needed for, and drop the old keys then."""
    progress = RotationProgress(told)
    while True:
        before = progress.anew
        _run_pass(service, progress)
        left, aside = service.write(lambda tx: _finish(service)).result()
        if not left or progress.anew == before:
            return RotationResult(progress.anew, left, aside)


def _run_pass(service: AppContext, progress: RotationProgress) -> None:
    progress.seen, progress.total = 0, service.read(_count_values).result()
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
    """Some values of a column; the id to go on after, None at the end."""
    rows = sql.fetch_all(each.part, (after, BATCH))
    anew = sum(_is_reencrypted(service, each, row, value) for row, value in rows)
    tx.after_commit(lambda: _add_progress(progress, len(rows), anew))
    return rows[-1][0] if len(rows) == BATCH else None


def _add_progress(progress: RotationProgress, seen: int, anew: int) -> None:
    progress.seen, progress.anew = progress.seen + seen, progress.anew + anew
    progress.told(progress.seen, progress.total)


def _is_reencrypted(service: AppContext, each: EncryptedColumn, row: object, value: str) -> bool:
    """Whether it had to be sealed anew, and could be."""
    vault = service.runtime.vault
    if value.startswith(f"v1.{vault.key_id}."):
        return False
    try:
        fresh = vault.seal_anew(value, (each.table, each.bound, str(row)))
    except SealError as error:
        log.error("%s %s: %s cannot be sealed anew: %s", each.table, row, each.column, error)
        return False
    return bool(sql.update(each.anew, (fresh, row, value)))


def _finish(service: AppContext) -> tuple[list[str], list[str]]:
    """The keys that are still needed; where none is, the files in which the old ones are now."""
    key = instance.find_key_id()
    left = sorted({found for each in ENCRYPTED_COLUMNS for (found,) in sql.fetch_all(each.keys)} - {key})
    return left, [] if left else _drop_old_keys(service)


def _drop_old_keys(service: AppContext) -> list[str]:
    """The files with the old keys; none where the keys are in the settings, or were dropped before."""
    settings = service.runtime.settings
    if settings.security.encryption_keys:
        return []
    new, *old = runtime.read_key_file(settings.key_file)
    aside = [str(master_key_file.save_retired_key(settings.key_file, key)) for key in old]
    fault_injection.hit("rotate.aside")
    if old:
        master_key_file.write(settings.key_file, [new])
    return aside


def check_rotatable(service: AppContext, *, running: bool) -> None:
    """ApiError where the keys stand in the settings and cannot be rotated so."""
    named = service.runtime.settings.security.encryption_keys
    if not named:
        return
    new = crypto.parse_master_key(named[0]).id
    if running and service.read(instance.find_key_id).result() != new:
        raise ApiError("validation_failed", _NOT_LOADED_MESSAGE)
    if len(named) == 1 and service.read(instance.list_needed_keys).result() <= {new}:
        raise ApiError("validation_failed", _NO_NEW_KEY_MESSAGE)


_NOT_LOADED_MESSAGE = (
    "The running server does not seal with the first of security.encryption_keys yet: restart it with these settings, "
    "then do this again."
)
_NO_NEW_KEY_MESSAGE = (
    "The master keys are in the settings: put a new one first in security.encryption_keys, keep the old one behind it, "
    "restart the server, then do this again. A new one: openssl rand -base64 32"
)
