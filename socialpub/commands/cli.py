"""The table of commands; no logic of its own.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the rules, 4 authentication.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from socialpub import __version__, platforms
from socialpub.base import private, redact
from socialpub.base.config import ConfigError
from socialpub.base.errors import ApiError
from socialpub.commands import admin, backup, doctor, example, listen, resume, serve, trail
from socialpub.domain.backups.archive import BackupError
from socialpub.domain.core.events import EVENTS
from socialpub.domain.people import billing, users
from socialpub.domain.shapes.errors import error_body
from socialpub.store.locks import StartError
from socialpub.store.rows import AccountStatus

ONE_ORG = "the organization's id; optional where there is only one"
ALL_ORGS = "only those of this organization"
DONE, FAILED, REFUSED, AUTHENTICATION = 0, 1, 3, 4  # 2 is argparse's own, for what was typed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    private.begin()
    if logging.lastResort:  # of what a command says before, or without, a log of its own
        logging.lastResort.setFormatter(redact.LogFormatter("%(message)s"))
    options = parser().parse_args(arguments)
    try:
        result = options.run(options)
    except (ApiError, BackupError, ConfigError, StartError, serve.RefusedError) as error:
        return _failed(options, error)
    except KeyboardInterrupt:
        return FAILED
    if getattr(options, "act", "") and result.get(options.done):
        trail.tell(options.act, result)
    if result is not None:
        _show(options, result)
    return int(getattr(options, "exit_code", DONE))


def _demo(options: argparse.Namespace) -> Any:
    # Read where it is asked for: a server neither waits for the simulator at its start nor holds it in memory.
    from socialpub.commands import demo

    return demo.demo(options)


def _simulator(options: argparse.Namespace) -> Any:
    from socialpub.commands import demo  # as above

    return demo.simulator(options)


def _failed(options: argparse.Namespace, error: Exception) -> int:
    if options.json:
        body = dict(error_body(error, "")) if isinstance(error, ApiError) else {"message": str(error)}
        body.pop("docUrl", None), body.pop("ruleUrl", None)
        print(json.dumps({"error": body}, ensure_ascii=False))
    print(f"socialpub: {error}", file=sys.stderr)
    if isinstance(error, ApiError) and error.remediation:
        print(f"  {error.remediation}", file=sys.stderr)
    return _exit_code(error)


def _exit_code(error: Exception) -> int:
    if isinstance(error, serve.RefusedError):
        return REFUSED
    if isinstance(error, ApiError):
        if error.code in ("platform_auth_failed", "unauthenticated"):
            return AUTHENTICATION
        return REFUSED if error.status in (400, 403, 404, 409) else FAILED
    return FAILED


def _show(options: argparse.Namespace, result: Any) -> None:
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        for line in _lines(result):
            print(line)


def _lines(result: Any) -> list[str]:
    if isinstance(result, list):
        return ["  ".join(str(value) for value in row.values() if value is not None) for row in result] or ["none"]
    width = max(len(name) for name in result)
    return [f"{name:<{width}}  {_plain(value)}" for name, value in result.items()]


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


# --- The table ---------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Every command with its options; --config and --json stand before or after the command."""
    top = argparse.ArgumentParser(
        prog="socialpub", description="Publish to social platforms: once, on time, with proof.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=__version__)
    _common(top, default=True)
    commands = top.add_subparsers(required=True, metavar="command")

    command = _add(commands, "serve", serve.serve, "migrate, then run API, queue and scheduler in one process")
    command.add_argument("--host")
    command.add_argument("--port", type=int)

    command = _add(commands, "demo", _demo, "serve on a fresh database with the built-in platform simulator")
    command.add_argument("--port", type=int)
    command.add_argument("--once", action="store_true", help="publish one batch, print its result, exit")

    command = _add(commands, "simulator", _simulator, "the platform simulator alone")
    command.add_argument("--host", default="127.0.0.1")
    ports = f"the first of {1 + len(platforms.PLATFORMS)} ports in a row: the control page, then one for each platform"
    command.add_argument("--port", type=int, default=8090, help=f"{ports} (default 8090)")
    command.add_argument("--ledger", type=Path, help="append what is published to this file, a JSON line each")

    command = _add(commands, "migrate", admin.migrate, "bring the database to the newest schema")
    _act(command, "migrate", done="applied")

    command = _add(commands, "resume", resume.resume, "resume publishing after a pause; shows first what is overdue")
    _act(command, "resume", done="was")
    command.add_argument(
        "--after-restore", action="store_true", help="confirm that the restored database is the one to go on with"
    )
    command.add_argument("--skip-overdue", action="store_true", help="fail every overdue post instead of publishing it")
    _backups(commands)
    command = _add(commands, "doctor", doctor.doctor, "look at all that a server needs, and say what is wrong")
    command.add_argument("--offline", action="store_true", help="only what is on this machine")
    config = _group(commands, "config", "the settings file")
    _add(config, "example", example.show, "print socialpub.toml.example: every setting with its default")
    _webhooks(commands)
    _administration(commands)
    return top


def _backups(commands: Any) -> None:
    command = _add(commands, "backup", backup.backup, "write database and media to one file, beside a running server")
    command.add_argument("file", type=Path, metavar="FILE", help="a new file, such as socialpub-2026-11-22.zip")
    command.add_argument(
        "--with-keys", action="store_true", help="the master key too: who has the file can read all tokens"
    )
    _act(command, "backup", done="file")
    command = _add(commands, "verify", backup.verify, "read all of a backup, as a restore would")
    command.add_argument("file", type=Path, metavar="FILE")
    command = _add(commands, "restore", backup.restore, "put a backup in its place; the server then starts paused")
    command.add_argument("file", type=Path, metavar="FILE")
    _act(command, "restore", done="database")


def _webhooks(commands: Any) -> None:
    about = "forward every event that happens from now on to an address of this machine, signed like a delivery"
    command = _add(commands, "listen", listen.listen, about)
    _over_the_api(command)
    command.add_argument("--forward-to", metavar="URL", help="such as http://localhost:3000/hook")
    command.add_argument("--types", help="only these types, separated by commas")
    command.add_argument("--print", action="store_true", help="print the events themselves, too")
    command.add_argument("--secret", help="sign with this secret (whsec_ and base64), not with a new one")
    command.add_argument("--header-prefix", default="X-Service", help="webhooks.header_prefix of the server")

    command = _add(
        commands, "trigger", listen.trigger, "send a sample event to the webhook endpoints that want its type"
    )
    command.add_argument("type", metavar="TYPE", choices=EVENTS, help=", ".join(EVENTS))
    _over_the_api(command)
    command.add_argument("--endpoint", metavar="ID", help="to this endpoint, also if it is off or wants other types")
    command.add_argument("--data", metavar="JSON", help="what the sample carries in place of its example data")


def _over_the_api(command: argparse.ArgumentParser) -> None:
    """For a server that may be anywhere."""
    key = os.environ.get("SOCIALPUB_KEY")
    command.add_argument("--url", default="http://127.0.0.1:8080", help="the server (default http://127.0.0.1:8080)")
    command.add_argument("--key", default=key, required=not key, help="an API key (default $SOCIALPUB_KEY)")
    command.set_defaults(usage=command.error)


def _administration(commands: Any) -> None:
    org = _group(commands, "org", "organizations")
    command = _add(org, "create", admin.org_create, "a new organization with its first profile")
    _act(command, "org create")
    command.add_argument("name")
    _add(org, "list", admin.org_list, "every organization with its id")
    about = "the tier that decides how many posts a month an organization may make; enterprise, self_host: any number"
    command = _add(org, "set-tier", admin.org_set_tier, about)
    _act(command, "org set-tier")
    command.add_argument("id", help="the organization's id")
    command.add_argument("tier", choices=billing.TIERS)

    profile = _group(commands, "profile", "profiles of an organization")
    command = _add(profile, "create", admin.profile_create, "a new profile")
    _act(command, "profile create")
    command.add_argument("name")
    command.add_argument("--org", help=ONE_ORG)
    command = _add(profile, "list", admin.profile_list, "the profiles of an organization")
    command.add_argument("--org", help=ONE_ORG)

    key = _group(commands, "key", "API keys")
    command = _add(key, "create", admin.key_create, "a new API key, shown this once")
    _act(command, "key create")
    command.add_argument("--org", help=ONE_ORG)
    command.add_argument("--profile")
    command.add_argument("--name", default="command line")
    command.add_argument("--test", action="store_true", help="label it as a test key; it works like any other")
    command = _add(key, "revoke", admin.key_revoke, "revoke an API key")
    _act(command, "key revoke")
    command.add_argument("id")
    command = _add(key, "list", admin.key_list, "every API key, without its secret")
    command.add_argument("--org", help=ALL_ORGS)

    user = _group(commands, "user", "people who sign in")
    command = _add(user, "create", admin.user_create, "a new user; the password is read from standard input")
    _act(command, "user create")
    command.add_argument("--org", help=ONE_ORG)
    command.add_argument("--email", required=True)
    command.add_argument("--role", required=True, choices=users.ROLES)
    command = _add(user, "set-password", admin.user_set_password, "set a new password, read from standard input")
    _act(command, "user set-password")
    command.add_argument("--email", required=True)
    command = _add(user, "list", admin.user_list, "the users who can sign in")
    command.add_argument("--org", help=ALL_ORGS)

    account = _group(commands, "account", "connected accounts")
    command = _add(account, "add", admin.account_add, "add an account from its tokens (JSON on standard input)")
    _act(command, "account add")
    command.add_argument("--profile", required=True)
    command.add_argument("--platform", required=True, choices=sorted(platforms.PLATFORMS))
    command.add_argument("--platform-account-id", required=True)
    command.add_argument("--display-name")
    command = _add(account, "list", admin.account_list, "connected accounts, without their tokens")
    command.add_argument("--org", help=ALL_ORGS)
    command.add_argument("--profile")
    command.add_argument("--platform", choices=sorted(platforms.PLATFORMS))
    command.add_argument("--status", choices=get_args(AccountStatus))
    connect = _group(
        account, "connect", "connect an account by its credentials; the secret is read from standard input"
    )
    for platform in platforms.PLATFORMS.values():
        if platform.credentials:
            command = _add(connect, platform.name, admin.account_connect, f"connect a {platform.label} account")
            command.set_defaults(platform=platform.name)
            _act(command, f"account connect {platform.name}")
            command.add_argument("--profile", required=True)
            for field in platform.credentials:
                if not field.secret:
                    command.add_argument(f"--{field.name}", required=True, help=field.label)


def _group(commands: Any, name: str, about: str) -> Any:
    group = commands.add_parser(name, help=about, description=about)
    return group.add_subparsers(required=True, metavar="command")


def _add(commands: Any, name: str, run: Callable[[argparse.Namespace], Any], about: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    command.set_defaults(run=run)
    _common(command, default=False)
    return command


def _act(command: argparse.ArgumentParser, act: str, *, done: str = "id") -> None:
    """A command that changes something: it is in the log once its result says so, in the field `done`."""
    command.set_defaults(act=act, done=done)


def _common(command: argparse.ArgumentParser, *, default: bool) -> None:
    # A subcommand's default must not overwrite what stood before the command.
    missing: Any = None if default else argparse.SUPPRESS
    command.add_argument("--config", type=Path, default=missing, help="the settings file (default ./socialpub.toml)")
    command.add_argument("--json", action="store_true", default=False if default else argparse.SUPPRESS)
    command.add_argument("--database", default=missing, help="the SQLite file")
    command.add_argument("--data-dir", default=missing, help="media, key file and lock")
