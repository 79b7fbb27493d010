"""Whether this database is the one that ran last here, or a copy: restored, cloned, rolled back.

A copy says `queued` where the world says posted. What a run leaves for the next start to compare, at each beat:

- in the database, a number that only grows (`beat`) and a random `mark`;
- the same in `{data_dir}/instance.state`, with what no copy takes along: which file the database is and which file
  `instance.state` itself is (the number and birth of each), the machine, its boot, the device;
- the same number and mark outside the data folder, under the database's own id: they stay when a volume is rolled back.

A difference that may mean a copy pauses the start. What cannot be known (in containers, on file systems without lasting
numbers, where nothing outside can be written) is not compared: a plain restart must not pause.
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
from socialpub.base.security import private_files
from socialpub.base.system import host_identity, os_errors
from socialpub.base.system.host_identity import FileId, HostIdentity
from socialpub.domain.context.app_context import PendingIntegrityCheck
from socialpub.store.engine.locks import StartError

log = logging.getLogger("socialpub.jobs")

MARKS_MAX = 64  # files in a folder of marks; the oldest go
_UNKNOWN_FILE = FileId(0, None, None)


@dataclass(frozen=True)
class DatabaseGeneration:
    """One count of a database's life: of two with the same number only one can be its own."""

    number: int
    mark: str

    def is_behind(self, other: DatabaseGeneration | None) -> bool:
        """Whether the other one is from a life that this one does not know of."""
        if other is None:
            return False
        return self.number < other.number or (self.number == other.number and self.mark != other.mark)


@dataclass(frozen=True)
class ShutdownRecord:
    """The database as it was when a server had closed it, whole as far as anybody knows."""

    size: int
    changed_ns: int

    @classmethod
    def of(cls, database: Path) -> Self:
        found = os.stat(database)
        return cls(found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class InstanceState:
    """What `instance.state` says. A file of an older socialpub holds only the first two."""

    beat: int
    mark: str
    own: FileId = _UNKNOWN_FILE
    database: FileId = _UNKNOWN_FILE
    log: FileId = _UNKNOWN_FILE
    machine: str = ""
    boot: str = ""
    kernel: str = ""
    doubted: str = ""  # why the file may be damaged, as long as it has not been looked through
    left: ShutdownRecord | None = None

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Self:
        files = {name: FileId(**found[name]) for name in ("own", "database", "log") if name in found}
        texts = {name: str(found.get(name, "")) for name in ("machine", "boot", "kernel", "doubted")}
        left = ShutdownRecord(**found["left"]) if "left" in found else None
        return cls(int(found["beat"]), str(found["mark"]), **files, **texts, left=left)  # type: ignore[arg-type]


@dataclass(frozen=True)
class StartEvidence:
    """What a start sees."""

    beat: DatabaseGeneration
    state: InstanceState
    own: FileId
    database: FileId
    outside: DatabaseGeneration | None
    host: HostIdentity

    def is_elsewhere(self) -> bool:
        """Another disk, though the machine has not been started anew, and nothing outside vouches for it."""
        now, before = self.database.device, self.state.database.device
        same_boot = bool(self.host.boot) and self.host.boot == self.state.boot
        return same_boot and host_identity.is_disk_device(before) and now != before and self.beat != self.outside

    def is_another_machine(self) -> bool:
        return bool(self.host.machine and self.state.machine and self.host.machine != self.state.machine)


# In this order: the first that holds is told.
_OLDER_SIGNS: tuple[tuple[Callable[[StartEvidence], bool], str], ...] = (
    (
        lambda found: found.beat.is_behind(DatabaseGeneration(found.state.beat, found.state.mark)),
        "it is older than instance.state",
    ),
    (lambda found: found.beat.is_behind(found.outside), "it is older than the mark outside its folder"),
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


def explain_copy(settings: Settings, where: HostIdentity, uid: str, beat: DatabaseGeneration) -> str | None:
    """Why this database may be a copy; None when it is the one that ran last."""
    path = get_state_path(settings)
    state = read_state(path)
    if state is None:
        return f"there is no {path}"
    found = StartEvidence(
        beat,
        state,
        host_identity.identify_file(path),
        host_identity.identify_file(settings.database_path),
        _find_outside_generation(settings, where, uid),
        where,
    )
    return next((words for sign, words in (*_OLDER_SIGNS, *_ELSEWHERE_SIGNS) if sign(found)), None)


# --- Moved on purpose ----------------------------------------------------------------------------------------------

HANDOVER_MS = 7 * 86_400_000


@dataclass(frozen=True)
class HandoverRecord:
    """What `socialpub move` leaves in the database: from where, when, and at which beat, so that it counts once."""

    path: str
    at: int
    beat: int
    mark: str

    @classmethod
    def of(cls, settings: Settings, at: int, beat: DatabaseGeneration) -> Self:
        return cls(os.path.realpath(settings.database_path), at, beat.number, beat.mark)

    def text(self) -> str:
        return json.dumps(asdict(self))


def parse_handover(text: str | None, beat: DatabaseGeneration, now: int) -> HandoverRecord | None:
    """What the database says of a move that still counts: nobody has run it since, and it is not a week ago."""
    if not text:
        return None
    said = HandoverRecord(**json.loads(text))
    counts = (said.beat, said.mark) == (beat.number, beat.mark) and abs(now - said.at) <= HANDOVER_MS
    return said if counts else None


def explain_copy_after_handover(
    settings: Settings, where: HostIdentity, uid: str, beat: DatabaseGeneration, said: HandoverRecord
) -> str | None:
    """Why a database that was handed over may be a copy all the same; None where it has come to its new place.

    StartError at the old place, which publishes no more.
    """
    path, outside = get_state_path(settings), _find_outside_generation(settings, where, uid)
    state, is_there = read_state(path), os.path.realpath(settings.database_path) == said.path
    if is_there and state is not None:
        found = StartEvidence(
            beat,
            state,
            host_identity.identify_file(path),
            host_identity.identify_file(settings.database_path),
            outside,
            where,
        )
        if not any(sign(found) for sign, _ in _ELSEWHERE_SIGNS):
            raise StartError(f"{settings.database_path} {_HANDED_OVER_MESSAGE}")
    return "it is older than the mark outside its folder" if beat.is_behind(outside) else None


_HANDED_OVER_MESSAGE = (
    "was handed over by `socialpub move`: start it at its new place. If it is to stay here, and was started nowhere "
    "else: socialpub move --back. Nothing was changed."
)


def save_state(
    settings: Settings, where: HostIdentity, uid: str, beat: DatabaseGeneration, *, outside: bool, doubted: str = ""
) -> None:
    """Write down what the next start compares. `outside`: also outside the data folder. `doubted`: as of the state."""
    database = settings.database_path
    wal = database.with_name(database.name + "-wal")
    known = {
        "beat": beat.number,
        "mark": beat.mark,
        "database": asdict(host_identity.identify_file(database)),
        "machine": where.machine,
        "boot": where.boot,
        "kernel": host_identity.get_boot_id(),
        "doubted": doubted,
    }
    with contextlib.suppress(FileNotFoundError):
        known["log"] = asdict(host_identity.identify_file(Path(os.path.realpath(wal))))
    _write_file(
        get_state_path(settings), lambda fresh: known | {"own": asdict(host_identity.identify_file(fresh))}, sync=True
    )
    if outside:
        _write_mark(settings, where, uid, beat)


# --- Whether the file is to be looked through --------------------------------------------------------------------


def find_pending_check(settings: Settings) -> PendingIntegrityCheck | None:
    """Whether a start owes the file a look; None after a clean stop, when nobody has touched it since.

    A process that was killed leaves no damage behind it, as long as the kernel that has its files goes on.
    """
    state = read_state(get_state_path(settings))
    if state is None or (state.left is None and not state.kernel):
        return PendingIntegrityCheck("nothing is known of how it was left", first=False)
    if state.doubted:
        return PendingIntegrityCheck(state.doubted, first=True)
    if state.left is not None:
        return (
            None
            if state.left == ShutdownRecord.of(settings.database_path)
            else PendingIntegrityCheck("it was changed since", first=True)
        )
    if state.kernel == host_identity.get_boot_id():
        return PendingIntegrityCheck("the server was killed, or stopped before it had looked", first=False)
    return PendingIntegrityCheck("the machine went down", first=True)


def save_clean_stop(settings: Settings, beat: int) -> None:
    """After the database was closed by whoever had it: as it is, it owes no look. Not once somebody else has beaten."""
    path = get_state_path(settings)
    try:
        state, left = read_state(path), ShutdownRecord.of(settings.database_path)
        if state is not None and state.beat == beat and state.left != left:
            known = json.loads(path.read_text(encoding="utf-8")) | {"left": asdict(left)}
            _write_file(path, lambda fresh: known | {"own": asdict(host_identity.identify_file(fresh))}, sync=True)
    except (StartError, OSError) as error:
        log.warning("%s could not be written (%s): the next start looks at the whole database", path, error)


@contextlib.contextmanager
def record_own_changes(settings: Settings) -> Iterator[None]:
    """What a command changes while no server runs is no change from outside."""
    state = read_state(get_state_path(settings)) if settings.database_path.exists() else None
    as_left = state is not None and state.left is not None and find_pending_check(settings) is None
    yield
    if state is not None and as_left:
        save_clean_stop(settings, state.beat)


def get_state_path(settings: Settings) -> Path:
    return settings.data_dir / "instance.state"


def get_restore_path(database: Path) -> Path:
    """Where a restore makes the database, until it is whole."""
    real = Path(os.path.realpath(database))
    return real.with_name(real.name + ".restoring")


def read_state(path: Path) -> InstanceState | None:
    """What the file says; None where there is none. StartError for one that cannot be read."""
    try:
        return InstanceState.read(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = os_errors.describe(error) or "it is damaged"
        raise StartError(f"{path} cannot be read: {said}. Remove it to start paused.") from error


def _write_file(path: Path, content: Callable[[Path], Mapping[str, Any]], *, sync: bool) -> None:
    """Put a small file in its place, whole or not at all, whoever else is doing so."""
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


# --- Outside -----------------------------------------------------------------------------------------------------


def _find_outside_generation(settings: Settings, where: HostIdentity, uid: str) -> DatabaseGeneration | None:
    """The newest beat that is known outside the data folder; None where nothing is, or nothing can be read."""
    beats = [
        beat
        for folder in _list_mark_folders(settings, where)
        if uid and (beat := _read_mark(_get_mark_path(folder, uid)))
    ]
    return max(beats, key=lambda beat: beat.number, default=None)


def _write_mark(settings: Settings, where: HostIdentity, uid: str, beat: DatabaseGeneration) -> None:
    """In the first folder that takes it. Not synced: a mark that is lost makes nothing worse."""
    for folder in _list_mark_folders(settings, where):
        try:
            private_files.make_folder(folder)
            if folder.stat().st_uid == os.getuid() and not folder.is_symlink():
                _write_file(_get_mark_path(folder, uid), lambda _: {"beat": beat.number, "mark": beat.mark}, sync=False)
                _delete_old_marks(folder)
                return
        except OSError as error:
            log.debug("no mark in %s: %s", folder, os_errors.describe(error))


def _list_mark_folders(settings: Settings, where: HostIdentity) -> Iterator[Path]:
    """Those that do not travel with the data."""
    homes = {Path(os.path.realpath(home)) for home in (settings.data_dir, settings.database_path.parent)}
    for folder in where.marks:
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
    found = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[MARKS_MAX:]:
        path.unlink(missing_ok=True)


# --- Before the database is opened -------------------------------------------------------------------------------


def check_files(settings: Settings) -> None:
    """StartError where opening the database would make things worse: it is gone, or its log is another file's."""
    database, path = settings.database_path, get_state_path(settings)
    begun = get_restore_path(database)
    if begun.exists() and not database.exists():
        raise StartError(f"A restore was cut off: do it again, or remove {begun}. Nothing was changed.")
    state = read_state(path)
    if state is None:
        return
    if not database.exists():
        raise StartError(
            f"{database} is not there, though {path} says that it was. Put it back (a backup starts paused); "
            f"to begin with an empty database, remove {path}."
        )
    wal = Path(os.path.realpath(database) + "-wal")
    if not wal.exists() or state.log == _UNKNOWN_FILE:
        return
    here, replaced = host_identity.identify_file(wal), host_identity.identify_file(database)
    is_same_log = here.inode is not None and not here.differs(state.log.inode, state.log.born)
    if is_same_log and replaced.differs(state.database.inode, state.database.born):
        raise StartError(
            f"{wal} belongs to the database that was at {database} before this one, and would damage it. "
            f"Move {wal} and {wal.name.removesuffix('-wal')}-shm away, then start again. Nothing was changed."
        )
