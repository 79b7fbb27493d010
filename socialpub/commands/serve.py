"""`socialpub serve`: one process for web, publishing and scheduling."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from socialpub import __version__, platforms
from socialpub.base import config, s3
from socialpub.base.config import ConfigError, Settings
from socialpub.base.errors import ApiError
from socialpub.base.observability import redaction, tracing
from socialpub.base.observability.log_handler import BackgroundHandler
from socialpub.base.runtime import Clock, Runtime, SystemClock, load_vault
from socialpub.base.security import private_files
from socialpub.base.system import os_errors, sockets
from socialpub.base.system.host_identity import HostIdentity, find_network_problem, identify_host, raise_file_limit
from socialpub.commands.click_types import CommandOptions
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context import app_context
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.identity import users
from socialpub.domain.media import files
from socialpub.domain.server import copy_detection, instance
from socialpub.store import database
from socialpub.store.engine import integrity
from socialpub.store.engine.locks import (
    ServeLock,
    StartError,
    check_access,
    check_hard_links,
    check_kind,
    is_served,
    list_files,
)
from socialpub.store.schema import migration, models, snapshot
from socialpub.web.app import build_app
from socialpub.web.server import Lifespan, run_until_signal, serve_app
from socialpub_client.commands.exit_codes import FAILED
from socialpub_client.commands.process_exit import exit_now

LINE = "%(asctime)s %(levelname)s %(name)s %(message)s"
log = logging.getLogger("socialpub.commands")


class CommandRefusedError(Exception):
    """Refused: another server uses this database."""


def serve(options: CommandOptions) -> None:
    """Migrate, then serve until a signal."""
    set_up_logging()
    raise_file_limit()
    settings = load_settings(options, server={"host": options.host, "port": options.port})
    configure_logging(settings)
    check_kind(settings.database_path)
    with hold_server_lock(settings):
        sock, settings = bind(settings)
        with sock:
            service = start_service(settings)
            log.info("settings read from %s", settings.read_from)
            token = users.create_setup_token(service)
            with export_traces(settings):
                run(service, sock, lambda: _print_ready(settings, token))


def _print_ready(settings: Settings, setup_token: str | None) -> None:
    # Printed at once: the log's own thread would interleave its lines.
    print(f"socialpub serves {settings.base_url}\n", end="", file=sys.stderr)
    if setup_token:
        print(
            f"There are no users yet. To become the owner, open: {settings.base_url}/setup/{setup_token}",
            file=sys.stderr,
        )
        if not settings.server.base_url:
            port = settings.server.port
            print(f"From another machine, first: ssh -L {port}:127.0.0.1:{port} YOU@THIS-SERVER", file=sys.stderr)


@contextlib.contextmanager
def export_traces(settings: Settings) -> Iterator[None]:
    """Export traces as configured in the block. Raises ConfigError without the packages."""
    chosen = settings.tracing
    if not chosen.endpoint:
        yield
        return
    try:
        exporter = tracing.make_otlp_exporter(chosen.endpoint)
    except ImportError as error:
        raise ConfigError('tracing.endpoint needs more packages: pip install "socialpub[tracing]"') from error
    tracing.start(exporter, chosen.service_name, chosen.ratio, __version__)
    try:
        yield
    finally:
        tracing.stop()


@contextlib.contextmanager
def hold_server_lock(settings: Settings) -> Iterator[None]:
    """Hold the server lock of the database. Raises CommandRefusedError if it is taken."""
    lock = ServeLock(settings.database_path)
    try:
        if not lock.take():
            raise CommandRefusedError(f"another socialpub already serves {settings.database_path}")
        yield
    finally:
        lock.release()


def run(service: AppContext, sock: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal. Calls that outlast the drain are cut off; the next start checks."""
    engine = BackgroundEngine(service)
    engine.on_fenced = lambda: os.kill(os.getpid(), signal.SIGTERM)

    def on_ready() -> None:
        # Startup objects are permanent: scanning them in each full collection would delay all requests by 50 ms and
        # more.
        gc.collect()
        gc.freeze()
        log.info("started: socialpub %s at %s, database %s, process %d", *_describe_process(service), extra=_NAMES)
        ready()

    try:
        run_until_signal(run_engine_and_web(engine, serve_app(build_app(service, engine), sock)), on_ready)
    except ApiError as error:
        if error.rule != "storage.unavailable":
            raise
        raise StartError(f"{service.db.path}: {service.db.failing or error.message}") from error
    if service.db.files.lost:  # exit hard: a regular exit would close the files, writing to what has replaced them
        print(f"socialpub: {service.db.files.lost}", file=sys.stderr, flush=True)
        exit_now(FAILED)
    log.info("stopped: socialpub %s at %s, database %s, process %d", *_describe_process(service), extra=_NAMES)
    if service.db.fenced.is_set():
        raise CommandRefusedError(f"{service.db.path}: {service.db.failing}")


def _describe_process(service: AppContext) -> tuple[str, str, str, int]:
    return __version__, service.base_url, str(service.db.path), os.getpid()


_NAMES = {"names": ("version", "url", "database", "process")}


@contextlib.asynccontextmanager
async def run_engine_and_web(engine: BackgroundEngine, web: Lifespan) -> AsyncIterator[None]:
    """Run the engine and the web server over one service, which is closed at the end.

    The port opens once the engine has started, and jobs start once it is open: platforms fetch media from it. Both are
    drained at the same time: a request may wait for a post.
    """
    try:
        await asyncio.to_thread(engine.start)
    except BaseException:
        await asyncio.to_thread(close_context, engine.service)
        raise
    stopping: list[asyncio.Future[None]] = []
    try:
        async with web:
            try:
                await asyncio.to_thread(engine.start_jobs)
                yield
            finally:
                stopping.append(asyncio.ensure_future(asyncio.to_thread(engine.stop)))
    finally:
        await (stopping[0] if stopping else asyncio.to_thread(engine.stop))
        await asyncio.to_thread(close_context, engine.service)
        _record_shutdown(engine.service)


def _record_shutdown(service: AppContext) -> None:
    """Record a clean shutdown for the next start, unless the file is still to be checked."""
    if (
        service.process.pending_check is None
        and service.process.beat
        and not service.db.fenced.is_set()
        and not service.db.files.lost
    ):
        copy_detection.save_clean_stop(service.runtime.settings, service.process.beat)


def load_settings(options: CommandOptions, **overrides: Mapping[str, Any]) -> Settings:
    """Load the settings with command-line overrides; platform sections are checked too."""
    given = {"database": {"url": options.database}, "storage": {"data_dir": options.data_dir}, **overrides}
    chosen = {
        section: {name: value for name, value in values.items() if value is not None}
        for section, values in given.items()
    }
    settings = config.load(options.config, chosen)
    options.settings = settings.read_from
    check_platforms(settings)
    s3.check_settings(settings.backup)
    return settings


def check_platforms(settings: Settings) -> None:
    """Raise ConfigError for an unknown platform section or one with errors."""
    for name, table in settings.platforms.items():
        if name not in platforms.PLATFORMS:
            raise ConfigError(f"platforms.{name}: unknown platform; known: {', '.join(platforms.PLATFORMS)}")
        try:
            platforms.site(name, table)
        except ValidationError as error:
            known = [f"platforms.{name}.{key}" for key in platforms.PLATFORMS[name].site.model_fields]
            raise ConfigError(config.describe_errors(error, f"platforms.{name}.", known)) from error


def bind(settings: Settings) -> tuple[socket.socket, Settings]:
    """Open the listening socket; return it with the settings, completed by its port."""
    server = settings.server
    try:
        sock = sockets.listen(server.host, server.port)
    except OSError as error:
        raise ConfigError(f"server.port: cannot listen on {server.host}:{server.port}: {error.strerror}") from error
    sockets.set_defer_accept(sock)
    port = sock.getsockname()[1]
    return sock, settings.model_copy(update={"server": server.model_copy(update={"port": port})})


def start_service(settings: Settings, where: HostIdentity | None = None, clock: Clock | None = None) -> AppContext:
    """Migrate and open the service with its keys. Raises StartError or ConfigError."""
    path, where = _prepare_directory(settings), where or identify_host()
    for problem in find_network_paths(settings, where):
        log.warning("%s", problem)
    owed, needed = _check_database(settings) if path.exists() else (None, set())
    if needed:
        load_vault(settings, needed=needed)  # before anything is written
    is_new = not path.exists()
    migration.migrate(path, keep=settings.backup.before_upgrade)
    if is_new:
        log.warning("created a new database at %s", path.resolve())
    service = _open(settings, needed, where, clock or SystemClock())
    service.process.pending_check = owed
    return service


def _open(settings: Settings, needed: set[str], where: HostIdentity, clock: Clock) -> AppContext:
    """Open the service on a file of this version, with the keys that it needs."""
    models.check_columns(settings.database_path)
    vault = load_vault(settings, needed=needed)
    service = open_context(Runtime(settings, vault, clock=clock, host=where))
    service.db.guard_writes(lambda: instance.use_current_key(service))
    _check_folders(service)
    return service


def find_network_paths(settings: Settings, where: HostIdentity) -> list[str]:
    """Describe each data directory on a network file system."""
    folders = dict.fromkeys((settings.database_path.absolute().parent, settings.data_dir.absolute()))
    return [problem for folder in folders if (problem := find_network_problem(folder, where.mounts))]


def join_service(settings: Settings) -> AppContext:
    """Open the service for a command, beside a running server or without; creates a database.

    Nothing is migrated, and only the essential parts of the file are checked. Raises CommandRefusedError for a file of
    an older version, on which a server of that version may be running.
    """
    path = _prepare_directory(settings)
    if not path.exists() or _is_empty(path):
        return start_service(settings)
    integrity.check_essential_tables(path)
    return _open(settings, needed_keys(path), identify_host(), SystemClock())


def _is_empty(path: Path) -> bool:
    """Return whether the file is empty. Raises CommandRefusedError for an older schema."""
    there, lacking = migration.count_migrations(path)
    if there and lacking:
        raise CommandRefusedError(describe_older_schema(path, lacking))
    return not there


def find_database(settings: Settings) -> Path:
    """Return the path of the database. Raises CommandRefusedError if it is missing."""
    path = settings.database_path
    if not path.exists():
        raise CommandRefusedError(f"{path} does not exist. The settings were read from {settings.read_from}.")
    return path


def check_schema(path: Path) -> None:
    """Raise CommandRefusedError unless the schema is current: only then can tables be read."""
    _, lacking = migration.count_migrations(path)
    if lacking:
        raise CommandRefusedError(describe_older_schema(path, lacking))


def describe_older_schema(path: Path, lacking: int) -> str:
    """Compose the message about a file of an older version."""
    more = "1 more migration" if lacking == 1 else f"{lacking} more migrations"
    outdated = f"{path} was written by an older socialpub: this version has {more}. Nothing was changed."
    if is_served(path):
        return f"{outdated} A server runs on it: stop that server first, or use the commands of its version."
    return f"{outdated} Make a backup, then upgrade it: socialpub migrate."


def _prepare_directory(settings: Settings) -> Path:
    """Prepare directory and permissions; return the database path. Raises StartError."""
    make_private(settings)
    try:
        private_files.make_folder(settings.data_dir)
    except OSError as error:
        raise StartError(
            f"{settings.data_dir}: the data directory cannot be created: {os_errors.describe(error)}"
        ) from error
    copy_detection.check_files(settings)
    check_hard_links(settings.database_path)
    check_access(settings.database_path)
    return settings.database_path


def make_private(settings: Settings) -> None:
    """Restrict the permissions of our files. Raises StartError for files of others."""
    check_kind(settings.database_path)
    ours = (settings.data_dir / "media", settings.data_dir / "instance.state")
    link = (settings.database_path,) if settings.database_path.is_symlink() else ()
    why = private_files.restrict_permissions((*link, *list_files(settings.database_path), *ours))
    if why:
        raise StartError(f"{why}. Nothing was changed.")


def _check_folders(service: AppContext) -> None:
    """Raise StartError for unusable directories, before a post runs into them."""
    settings = service.runtime.settings
    why = files.find_problem(settings.data_dir, service.read(files.has_references).result())
    if why:
        close_context(service)
        raise StartError(f"{settings.data_dir}: {why}. {_PUT_BACK}" if "gone" in why else f"{settings.data_dir}: {why}")


_PUT_BACK = "Put it back, or create an empty one with mkdir to go on without its files"


def _check_database(settings: Settings) -> tuple[app_context.PendingIntegrityCheck | None, set[str]]:
    """Check the file; return the pending full check and the needed keys. Raises StartError."""
    owed, path = copy_detection.find_pending_check(settings), settings.database_path
    if database.check_start(path):
        owed = None
    return owed, needed_keys(path)


def needed_keys(path: Path) -> set[str]:
    """Return the ids of the master keys a database needs, in any schema. Raises StartError."""
    return snapshot.from_file(path)(snapshot.find_required_keys)


def set_up_logging() -> None:
    """Log to standard error, a line each, from a background thread."""
    if logging.getLogger().handlers:
        return
    # No line shows where it comes from; the logging how-to names these switches.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    handler = BackgroundHandler(sys.stderr)
    handler.setFormatter(redaction.TextLogFormatter(LINE))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    _limit_libraries(logging.INFO)


def configure_logging(settings: Settings) -> None:
    """Apply the configured log level and format."""
    level = getattr(logging, settings.log.level.upper())
    logging.getLogger().setLevel(level)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, BackgroundHandler) and settings.log.format == "json":
            handler.setFormatter(redaction.JsonLogFormatter())
    _limit_libraries(level)


def _limit_libraries(level: int) -> None:
    """Limit libraries to warnings."""
    for noisy in ("httpx", "httpcore", "huey", "huey.consumer", "peewee.migrations", "sanic.root", "sanic.server"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
