"""Detection of a copied database: restored, cloned or rolled back.

A copy may have posts as `queued` that are published by now. Each heartbeat stores, for the next start to compare:

- in the database, an increasing number (`beat`) and a random `mark`;
- both in `{data_dir}/instance.state`, with facts that a copy does not preserve: inode and birth time of the database
  and of `instance.state` itself, the machine, its boot and the device;
- both outside the data folder, under the database's id: they stay when a volume is rolled back.

A difference that may mean a copy pauses the start. Facts that are not available (in containers, on file systems without
stable inodes, without a writable folder outside) are not compared: a plain restart must not pause.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from socialpub.base.config import Settings
from socialpub.base.runtime import DAY_MS
from socialpub.base.security import private_files
from socialpub.base.system import host_identity, os_errors
from socialpub.base.system.host_identity import FileId, HostIdentity
from socialpub.domain.context.app_context import PendingIntegrityCheck
from socialpub.store.engine.locks import StartError

log = logging.getLogger("socialpub.jobs")

MARKS_MAX = 64  # files in a folder of marks; the oldest are deleted
_UNKNOWN_FILE = FileId(0, None, None)


@dataclass(frozen=True)
class DatabaseGeneration:
    """Generation of a database, increased by each heartbeat; `mark` tells copies apart."""

    number: int
    mark: str

    def is_behind(self, other: DatabaseGeneration | None) -> bool:
        """Return whether `other` is newer, or from another copy."""
        if other is None:
            return False
        return self.number < other.number or (self.number == other.number and self.mark != other.mark)


@dataclass(frozen=True)
class ShutdownRecord:
    """Size and modification time of the database after a clean stop."""

    size: int
    changed_ns: int

    @classmethod
    def of(cls, database: Path) -> Self:
        found = os.stat(database)
        return cls(found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class InstanceState:
    """Content of `instance.state`. Files of older versions have only the first two fields."""

    beat: int
    mark: str
    own: FileId = _UNKNOWN_FILE
    database: FileId = _UNKNOWN_FILE
    log: FileId = _UNKNOWN_FILE
    machine: str = ""
    boot: str = ""
    kernel: str = ""
    doubted: str = ""  # why the file may be damaged, until it is checked
    left: ShutdownRecord | None = None

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        files = {name: FileId(**found[name]) for name in ("own", "database", "log") if name in found}
        texts = {name: str(found.get(name, "")) for name in ("machine", "boot", "kernel", "doubted")}
        left = ShutdownRecord(**found["left"]) if "left" in found else None
        return cls(int(found["beat"]), str(found["mark"]), **files, **texts, left=left)  # type: ignore[arg-type]


@dataclass(frozen=True)
class StartEvidence:
    """Facts that a start compares."""

    generation: DatabaseGeneration
    state: InstanceState
    own: FileId
    database: FileId
    outside: DatabaseGeneration | None
    host: HostIdentity

    def is_elsewhere(self) -> bool:
        """Return whether it moved to another disk without a reboot, and the mark differs."""
        now, before = self.database.device, self.state.database.device
        same_boot = bool(self.host.boot) and self.host.boot == self.state.boot
        return same_boot and host_identity.is_disk_device(before) and now != before and self.generation != self.outside

    def is_another_machine(self) -> bool:
        return bool(self.host.machine and self.state.machine and self.host.machine != self.state.machine)


# In this order: the first that applies is reported.
_OLDER_SIGNS: tuple[tuple[Callable[[StartEvidence], bool], str], ...] = (
    (
        lambda found: found.generation.is_behind(DatabaseGeneration(found.state.beat, found.state.mark)),
        "it is older than instance.state",
    ),
    (lambda found: found.generation.is_behind(found.outside), "it is older than the mark outside its folder"),
)
_ELSEWHERE_SIGNS: tuple[tuple[Callable[[StartEvidence], bool], str], ...] = (
    (
        lambda found: found.database.differs(found.state.database.inode, found.state.database.born),
        "its file is not the one that ran last",
    ),
    (
        lambda found: found.own.differs(found.state.own.inode, found.state.own.born),
        "instance.state was copied or put back",
    ),
    (StartEvidence.is_another_machine, "it ran last on another machine"),
    (StartEvidence.is_elsewhere, "it ran last on another disk"),
)


def explain_copy(settings: Settings, host: HostIdentity, uid: str, generation: DatabaseGeneration) -> str | None:
    """Return why this database may be a copy, or None."""
    found = _find_evidence(settings, host, uid, generation)
    if found is None:
        return f"there is no {get_state_path(settings)}"
    return next((words for sign, words in (*_OLDER_SIGNS, *_ELSEWHERE_SIGNS) if sign(found)), None)


def _find_evidence(
    settings: Settings, host: HostIdentity, uid: str, generation: DatabaseGeneration
) -> StartEvidence | None:
    """Return what tells a copy; None without `instance.state`."""
    path = get_state_path(settings)
    state = read_state(path)
    if state is None:
        return None
    own, database = host_identity.identify_file(path), host_identity.identify_file(settings.database_path)
    return StartEvidence(generation, state, own, database, _find_outside_generation(settings, host, uid), host)


# --- Handover ----------------------------------------------------------------------------------------------------

HANDOVER_MS = 7 * DAY_MS


@dataclass(frozen=True)
class HandoverRecord:
    """Record of `socialpub move` in the database: old path, time and generation."""

    path: str
    at: int
    beat: int
    mark: str

    @classmethod
    def of(cls, settings: Settings, at: int, generation: DatabaseGeneration) -> Self:
        return cls(os.path.realpath(settings.database_path), at, generation.number, generation.mark)

    def encode(self) -> str:
        return json.dumps(asdict(self))

    def is_recent(self, now: int) -> bool:
        """Return whether a start at the new place may still rely on it."""
        return abs(now - self.at) <= HANDOVER_MS


def parse_handover(text: str | None, generation: DatabaseGeneration) -> HandoverRecord | None:
    """Parse a handover; None if the database has run since."""
    if not text:
        return None
    record = HandoverRecord(**json.loads(text))
    return record if (record.beat, record.mark) == (generation.number, generation.mark) else None


def explain_copy_after_handover(
    settings: Settings, host: HostIdentity, uid: str, generation: DatabaseGeneration
) -> str | None:
    """Return why a handed over database may be a copy of the one that was meant; None if not."""
    is_behind = generation.is_behind(_find_outside_generation(settings, host, uid))
    return "it is older than the mark outside its folder" if is_behind else None


def is_handed_over(
    settings: Settings, host: HostIdentity, uid: str, generation: DatabaseGeneration, record: HandoverRecord
) -> bool:
    """Return whether a handed over database is still at its old place."""
    if os.path.realpath(settings.database_path) != record.path:
        return False
    found = _find_evidence(settings, host, uid, generation)
    return found is not None and not any(sign(found) for sign, _ in _ELSEWHERE_SIGNS)


def save_state(
    settings: Settings,
    host: HostIdentity,
    uid: str,
    generation: DatabaseGeneration,
    *,
    outside: bool,
    doubted: str = "",
) -> None:
    """Write `instance.state`. `outside`: the mark too. `doubted`: why the file may be damaged."""
    database = settings.database_path
    wal = database.with_name(database.name + "-wal")
    state = {
        "beat": generation.number,
        "mark": generation.mark,
        "database": asdict(host_identity.identify_file(database)),
        "machine": host.machine,
        "boot": host.boot,
        "kernel": host_identity.get_boot_id(),
        "doubted": doubted,
    }
    with contextlib.suppress(FileNotFoundError):
        state["log"] = asdict(host_identity.identify_file(Path(os.path.realpath(wal))))
    _write_file(
        get_state_path(settings), lambda fresh: state | {"own": asdict(host_identity.identify_file(fresh))}, sync=True
    )
    if outside:
        _write_mark(settings, host, uid, generation)


# --- Pending integrity check -------------------------------------------------------------------------------------


def find_pending_check(settings: Settings) -> PendingIntegrityCheck | None:
    """Return the integrity check that a start has to make; None after a clean stop.

    A killed process leaves no damage while the same kernel runs.
    """
    state = read_state(get_state_path(settings))
    if state is None or (state.left is None and not state.kernel):
        return PendingIntegrityCheck("it is not known how the server stopped", first=False)
    if state.doubted:
        return PendingIntegrityCheck(state.doubted, first=True)
    if state.left is not None:
        return (
            None
            if state.left == ShutdownRecord.of(settings.database_path)
            else PendingIntegrityCheck("the file was changed since the server stopped", first=True)
        )
    if state.kernel == host_identity.get_boot_id():
        return PendingIntegrityCheck("the server was killed, or stopped before it had checked the file", first=False)
    return PendingIntegrityCheck("the machine went down", first=True)


def save_clean_stop(settings: Settings, beat: int) -> None:
    """Record a clean stop, unless another process has recorded a heartbeat since."""
    path = get_state_path(settings)
    try:
        state, left = read_state(path), ShutdownRecord.of(settings.database_path)
        if state is not None and state.beat == beat and state.left != left:
            known = json.loads(path.read_text(encoding="utf-8")) | {"left": asdict(left)}
            _write_file(path, lambda fresh: known | {"own": asdict(host_identity.identify_file(fresh))}, sync=True)
    except (StartError, OSError) as error:
        log.warning("%s could not be written (%s): the next start checks the whole database", path, error)


@contextlib.contextmanager
def record_own_changes(settings: Settings) -> Iterator[None]:
    """Keep a clean stop valid across the changes of a command that runs without a server."""
    state = read_state(get_state_path(settings)) if settings.database_path.exists() else None
    was_clean = state is not None and state.left is not None and find_pending_check(settings) is None
    yield
    if state is not None and was_clean:
        save_clean_stop(settings, state.beat)


def get_state_path(settings: Settings) -> Path:
    return settings.data_dir / "instance.state"


def get_restore_path(database: Path) -> Path:
    """Return the path at which a restore builds the database."""
    real = Path(os.path.realpath(database))
    return real.with_name(real.name + ".restoring")


def read_state(path: Path) -> InstanceState | None:
    """Read the state; None if there is no file. Raises StartError if it cannot be read."""
    try:
        return InstanceState.parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = os_errors.describe(error) or "it is damaged"
        raise StartError(f"{path} cannot be read: {why}. Remove it to start paused.") from error


def _write_file(path: Path, content: Callable[[Path], Mapping[str, Any]], *, sync: bool) -> None:
    """Write a small file atomically; safe for concurrent writers."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with os.fdopen(private_files.replace(fresh), "w", encoding="utf-8") as file:
            json.dump(content(fresh), file)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


# --- Marks -------------------------------------------------------------------------------------------------------


def _find_outside_generation(settings: Settings, host: HostIdentity, uid: str) -> DatabaseGeneration | None:
    """Return the newest generation stored outside the data folder, or None."""
    generations = [
        generation
        for folder in _list_mark_folders(settings, host)
        if uid and (generation := _read_mark(_get_mark_path(folder, uid)))
    ]
    return max(generations, key=lambda generation: generation.number, default=None)


def _write_mark(settings: Settings, host: HostIdentity, uid: str, generation: DatabaseGeneration) -> None:
    """Write the mark to the first writable folder. Not synced: losing it is harmless."""
    mark = {"beat": generation.number, "mark": generation.mark}
    for folder in _list_mark_folders(settings, host):
        try:
            private_files.make_folder(folder)
            if folder.stat().st_uid == os.getuid() and not folder.is_symlink():
                _write_file(_get_mark_path(folder, uid), lambda _: mark, sync=False)
                _delete_old_marks(folder)
                return
        except OSError as error:
            log.debug("the mark could not be written to %s: %s", folder, os_errors.describe(error))


def _list_mark_folders(settings: Settings, host: HostIdentity) -> Iterator[Path]:
    """List the folders that are not copied along with the data."""
    homes = {Path(os.path.realpath(home)) for home in (settings.data_dir, settings.database_path.parent)}
    for folder in host.marks:
        real = Path(os.path.realpath(folder))
        if not any(real.is_relative_to(home) for home in homes):
            yield folder


def _get_mark_path(folder: Path, uid: str) -> Path:
    return folder / re.sub(r"[^0-9a-z-]", "_", uid)


def _read_mark(path: Path) -> DatabaseGeneration | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return DatabaseGeneration(int(found["beat"]), str(found["mark"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _delete_old_marks(folder: Path) -> None:
    """Delete the oldest files, those that a killed process left half written too."""
    found = sorted(folder.iterdir(), key=_get_changed_ns, reverse=True)
    for path in found[MARKS_MAX:]:
        path.unlink(missing_ok=True)


def _get_changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # another heartbeat has put its file in place
        return 0


# --- Checks before opening ---------------------------------------------------------------------------------------


def check_files(settings: Settings) -> None:
    """Raise StartError if opening would do damage: a missing database, or a foreign WAL."""
    database, path = settings.database_path, get_state_path(settings)
    unfinished = get_restore_path(database)
    if unfinished.exists() and not database.exists():
        raise StartError(f"A restore was interrupted. Repeat it, or remove {unfinished}. Nothing was changed.")
    state = read_state(path)
    if state is None:
        return
    if not database.exists():
        raise StartError(
            f"{database} is missing, although {path} records it. Put it back (a backup starts paused), or, to start "
            f"with an empty database, remove {path}."
        )
    wal = Path(os.path.realpath(database) + "-wal")
    if not wal.exists() or state.log == _UNKNOWN_FILE:
        return
    here, replaced = host_identity.identify_file(wal), host_identity.identify_file(database)
    is_same_log = here.inode is not None and not here.differs(state.log.inode, state.log.born)
    if is_same_log and replaced.differs(state.database.inode, state.database.born):
        raise StartError(
            f"{wal} belongs to another database that was at {database} before, and would damage this one. "
            f"Move {wal} and {wal.name.removesuffix('-wal')}-shm away, then start again. Nothing was changed."
        )
