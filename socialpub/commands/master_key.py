"""`socialpub keys rotate`, `keys forget`: a new master key; a start after losing one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import click

from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.commands.admin import make_actor, open_database
from socialpub.commands.backup import make_progress
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import (
    CommandRefusedError,
    check_schema,
    find_database,
    hold_server_lock,
    load_settings,
    make_private,
    needed_keys,
)
from socialpub.domain.access import actions
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.operations import key_rotation, lost_key
from socialpub.domain.server import copy_detection
from socialpub.store import database as db
from socialpub.store.engine.locks import is_served
from socialpub.store.schema import migration
from socialpub_client.commands.runner import is_terminal, tell_error

INCOMPLETE = 1


def rotate(options: CommandOptions) -> dict[str, Any]:
    """Rotate the master key; return counts. Exit code 1 if values could not be re-encrypted."""
    with open_database(options) as service:
        key_rotation.check_rotatable(service, running=is_served(service.db.path))
        begun = actions.perform_sync(make_actor(options, service), key_rotation.start)
        bar = make_progress(options)
        made = key_rotation.reencrypt_all(service, lambda done, total: bar("re-encrypting", done, total))
        options.exit_code = INCOMPLETE if made.needed else 0
        return {
            **begun,
            "sealed": made.reencrypted,
            "left": made.needed,
            "aside": made.retired,
            "next": _describe_next(service, made),
        }


def _describe_next(service: AppContext, made: key_rotation.RotationResult) -> str:
    settings = service.runtime.settings
    if made.needed:
        return f"values encrypted with {', '.join(made.needed)} cannot be decrypted (see the log): keep the old key"
    if settings.security.encryption_keys:
        return "remove all keys but the first from security.encryption_keys; older backups need the old key"
    if not made.retired:
        return f"{settings.key_file} holds one key, which encrypts everything"
    return f"copy {settings.key_file} to a safe place; keep {', '.join(made.retired)} as long as your older backups"


# --- Lost key ------------------------------------------------------------------------------------------------------


def forget(options: CommandOptions) -> dict[str, Any]:
    """Give up data under a lost key; return counts. Raises CommandRefusedError without consent."""
    settings = load_settings(options)
    check_schema(find_database(settings))
    with hold_server_lock(settings):
        make_private(settings)
        copy_detection.check_files(settings)
        counts = _count_lost(settings)
        _confirm(options, counts)
        with copy_detection.record_own_changes(settings), _open_with_available_keys(settings) as service:
            lost_key.drop_lost(service)
            done = actions.perform_sync(make_actor(options, service), lost_key.finish)
    return {**done, **counts, "next": "socialpub serve, then reconnect the accounts"}


def _count_lost(settings: Settings) -> dict[str, int]:
    """Count the data under lost keys.

    Raises CommandRefusedError if no key is lost, ConfigError for an unreadable key.
    """
    lacking = needed_keys(settings.database_path)
    if settings.security.encryption_keys or settings.key_file.exists():
        held = load_vault(settings)
        lacking = {key for key in lacking if not held.holds(key)}
    if not lacking:
        raise CommandRefusedError("every master key that this database needs is available: there is nothing to forget")
    with contextlib.closing(db.Database(settings.database_path).open()) as database:
        found = database.read(lambda: lost_key.count_lost(lacking)).result()
    return {name: found[table] for name, table in _COUNTED_TABLES.items()}


_COUNTED_TABLES = {
    "accounts": "account",
    "apps": "platform_app",
    "webhooks": "webhook_endpoint",
    "channels": "notification_channel",
}


@contextlib.contextmanager
def _open_with_available_keys(settings: Settings) -> Iterator[AppContext]:
    """Open the service with the available keys, creating a key file if there is none."""
    migration.migrate(settings.database_path, keep=settings.backup.before_upgrade)
    service = open_context(Runtime(settings, load_vault(settings)))
    try:
        yield service
    finally:
        close_context(service)


def _confirm(options: CommandOptions, counts: dict[str, int]) -> None:
    """Ask for confirmation of what is given up. Raises CommandRefusedError without it."""
    if options.yes:
        return
    given_up = _LOSS_TEXT.format(**counts)
    if not is_terminal(sys.stdin):
        raise CommandRefusedError(f"{given_up} To continue, add --yes.")
    tell_error(given_up)
    if click.prompt("Type forget to continue", default="", show_default=False, err=True).strip() != "forget":
        raise CommandRefusedError("Nothing was changed.")


_LOSS_TEXT = (
    "Without the master key you lose: the authorization of {accounts} accounts (reconnect each of them), the secrets "
    "of {apps} platform apps (enter them again), the signing secrets of {webhooks} webhook endpoints (turned off until "
    "you rotate their secrets), and {channels} notification channels (removed). Posts and their history stay. If you "
    "have a copy of the key, stop here and put it back. This cannot be undone."
)
