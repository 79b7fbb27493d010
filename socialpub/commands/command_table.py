"""Table of the commands on the database: their syntax and their functions, without logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

import click

from socialpub.base.key_scopes import ALL_SCOPES
from socialpub.commands.click_types import COMMON_OPTIONS, CliCommand, CommandGroup, LazyGroup, file_argument
from socialpub_client.commands import command_table as client_table
from socialpub_client.commands.click_types import (
    ApiCommand,
    LazyChoice,
    UsageGroup,
    argument,
    flag,
    option,
    repeat_option,
)
from socialpub_client.commands.command_table import CommandSet

ONE_ORG = "the organization, by id or name; optional if there is only one"
ONE_PROFILE = "the profile, by id or name; optional if there is only one"
ID_OR_NAME = "its id or its name"
WITHIN = "the organization to look in"
ALL_ORGS = "only this organization"
PACKAGE = "socialpub.commands"


def build_command_set() -> CommandSet:
    """Build the commands on this machine's database, for the program `socialpub`."""
    return CommandSet(
        "Commands on this machine's database", list(_commands()), COMMON_OPTIONS, list(_webhook_commands())
    )


def parse(arguments: Sequence[str] | None = None) -> Callable[[], int] | None:
    """Parse the command line; None if only help, version or completion was printed.

    Raises click.UsageError for invalid input.
    """
    return client_table.parse(arguments, [build_command_set()])


def build_root() -> UsageGroup:
    """Build all commands of the program with their options."""
    return client_table.build_root([build_command_set()])


def _commands() -> Iterator[click.Command]:
    yield from _server_commands()
    yield from _backup_commands()
    yield from _status_commands()
    yield from _transfer_commands()
    yield _master_key_commands()
    yield CommandGroup(
        "config",
        "the settings file",
        CliCommand("example", "config_example.show", "print socialpub.toml.example: every setting with its default"),
    )
    yield from _admin_commands()


def _server_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "serve",
        "serve.serve",
        "run the server: migrate the database, then start API, dashboard and scheduler",
        option("host"),
        option("port", type=int),
    )
    yield CliCommand(
        "demo",
        "demo.demo",
        "run a server with sample data and a simulator of each platform",
        option("port", type=int),
        flag("once", "publish one batch, print the result and exit"),
    )
    yield CliCommand(
        "simulator",
        "demo.simulator",
        "run only the platform simulator",
        option("host", default="127.0.0.1"),
        option("port", _describe_ports, type=int, default=8090),
        option("ledger", "append each published post to this file, as one JSON line", type=click.Path(path_type=Path)),
    )
    yield CliCommand(
        "migrate", "admin.migrate", "upgrade the database to the newest schema", act="migrate", done="applied"
    )
    yield CliCommand(
        "resume",
        "resume.resume",
        "resume publishing after a pause; lists overdue posts first",
        flag("after-restore", "confirm that you compared the restored database with the platforms"),
        flag("skip-overdue", "mark overdue posts as failed instead of publishing them"),
        act="resume",
        done="was",
    )


def _backup_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "backup",
        "backup.backup",
        "back up database and media to one file; the server may be running",
        file_argument("a new file, such as socialpub-2026-11-22.zip, or s3:NAME for the bucket in the settings"),
        flag("with-keys", "include the master key: anyone who has the file can read all tokens"),
        act="backup",
        done="file",
    )
    yield CliCommand("verify", "backup.verify", "check a backup by reading all of it", file_argument())
    yield CliCommand("backups", "backup.list_backups", "list the automatic backups in the folder and the bucket")
    yield CliCommand(
        "restore",
        "backup.restore",
        "restore a backup; the server then starts paused",
        file_argument(),
        act="restore",
        done="database",
    )
    yield CliCommand(
        "move",
        "move.move",
        "prepare a move to another machine: the data no longer starts here, and its copy starts there unpaused",
        flag("back", "undo the move: the data stays here and was not started elsewhere"),
        act="move",
        done="database",
    )


def _status_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "status",
        "status.status",
        "show what is due, overdue, failing or needs attention; exit code 1 if anything does",
    )
    yield CliCommand(
        "doctor",
        "doctor.doctor",
        "check settings, files, clock and platforms, and report problems",
        flag("offline", "check only this machine"),
    )


def _master_key_commands() -> CommandGroup:
    return CommandGroup(
        "keys",
        "the master key, which encrypts account tokens and all other secrets",
        CliCommand(
            "rotate",
            "master_key.rotate",
            "create a new master key and re-encrypt everything; the server may be running",
            act="keys rotate",
            done="keyId",
        ),
        CliCommand(
            "forget",
            "master_key.forget",
            "replace a lost master key; you must then reconnect every account",
            flag("yes", "do not ask"),
            act="keys forget",
            done="keyId",
        ),
    )


def _transfer_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "export",
        "import_export.export",
        "export posts with their outcomes to a new file, as NDJSON or CSV",
        file_argument("a new file; .csv is CSV, anything else NDJSON; - is standard output"),
        option("org", ONE_ORG),
        flag("accounts", "export accounts, without their tokens, instead of posts"),
        flag("csv", "write CSV, regardless of the file name"),
        option(
            "status",
            "only posts with this status; repeat for several",
            multiple=True,
            type=LazyChoice(_list_post_states),
        ),
        option("account", "only posts to this account, by id or name"),
        option("after", "only posts created after this time", metavar="TIME"),
        option("before", "only posts created before this time", metavar="TIME"),
    )
    yield CliCommand(
        "import",
        "import_export.bring",
        "schedule posts from a file; checks all of it first and skips posts that were imported before",
        file_argument("NDJSON, or CSV if its name ends in .csv: account, scheduledAt, text, media, options"),
        option("org", ONE_ORG),
        flag("check", "only check the file"),
        flag("skip-invalid", "import valid lines even if others are invalid"),
        option(
            "from",
            "the file is this program's export; without --yes, only tell what would be imported and what would not. "
            "Buffer exports no queue: import a CSV file",
            type=LazyChoice(_list_sources),
        ),
        option("zone", "the time zone of the export's local times, such as Europe/Berlin"),
        option(
            "map", "our account for a name in the export; repeat for several", multiple=True, metavar="NAME=ACCOUNT"
        ),
        flag("yes", "import the export, or undo it"),
        flag("undo", "cancel the posts that an import of this export has scheduled"),
        act="import",
        done="imported",
    )


def _webhook_commands() -> Iterator[click.Command]:
    yield ApiCommand(
        "listen",
        "listen.listen",
        "forward new events to a URL on this machine, signed like webhook deliveries",
        option("forward-to", "such as http://localhost:3000/hook", metavar="URL"),
        option("types", "only these types, separated by commas"),
        flag("print", "also print each event"),
        option("secret", "sign with this secret (whsec_ and base64) instead of a new one"),
        option("header-prefix", "webhooks.header_prefix of the server", default="X-Service"),
        package=PACKAGE,
    )
    yield ApiCommand(
        "trigger",
        "listen.trigger",
        "send a sample event to the webhook endpoints for its type",
        argument("type", "an event type, such as post.failed", LazyChoice(_list_events), metavar="TYPE"),
        option("endpoint", "only this endpoint, even if it is off or takes other types", metavar="ID"),
        option("data", "data of the event, instead of the example data", metavar="JSON"),
        repeat_option(),
        package=PACKAGE,
    )


def _admin_commands() -> Iterator[click.Command]:
    yield CommandGroup("org", "organizations", *_organization_commands())
    yield CommandGroup("profile", "profiles of an organization", *_profile_commands())
    yield CommandGroup("key", "API keys", *_key_commands())
    yield CommandGroup("user", "users who sign in", *_user_commands())
    yield CommandGroup("account", "connected accounts", *_account_commands())


def _organization_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "create",
        "admin.org_create",
        "create an organization with its first profile",
        argument("name"),
        act="org create",
    )
    yield CliCommand(
        "rename",
        "admin.org_rename",
        "rename an organization",
        argument("id", ID_OR_NAME),
        argument("name"),
        act="org rename",
    )
    yield CliCommand(
        "delete",
        "admin.org_delete",
        "delete an organization permanently; without --yes, only list what would be deleted",
        argument("id", ID_OR_NAME),
        flag("yes", "delete it"),
        act="org delete",
    )
    yield CliCommand("list", "admin.org_list", "list organizations")
    yield CliCommand("show", "admin.org_show", "show an organization and what it contains", argument("id", ID_OR_NAME))
    yield CliCommand(
        "set-tier",
        "admin.org_set_tier",
        "set the tier, which limits the posts per month; enterprise and self_host have no limit",
        argument("id", ID_OR_NAME),
        argument("tier", type_=LazyChoice(_list_tiers)),
        act="org set-tier",
    )


def _profile_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "create",
        "admin.profile_create",
        "create a profile",
        argument("name"),
        option("org", ONE_ORG),
        act="profile create",
    )
    yield CliCommand("list", "admin.profile_list", "list the profiles of an organization", option("org", ONE_ORG))
    yield CliCommand(
        "show",
        "admin.profile_show",
        "show a profile and what it contains",
        argument("id", ID_OR_NAME),
        option("org", WITHIN),
    )


def _key_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "create",
        "admin.key_create",
        "create an API key, which is shown once",
        option("org", ONE_ORG),
        option("profile", "limit the key to this profile, by id or name"),
        option("name", default="command line"),
        option("scope", "limit what the key may do; repeat for several", multiple=True, type=click.Choice(ALL_SCOPES)),
        option("account", "limit the key to this account, by id or name; repeat for several", multiple=True),
        option("expires", "when the key stops working: a time, or a duration such as 90d", metavar="TIME"),
        flag("test", "label it as a test key; it works like a live key"),
        act="key create",
    )
    named = (argument("id", "its id, its name or its last four characters"), option("org", WITHIN))
    yield CliCommand("revoke", "admin.key_revoke", "revoke an API key", *named, act="key revoke")
    yield CliCommand("list", "admin.key_list", "list API keys, without their secrets", option("org", ALL_ORGS))
    yield CliCommand("show", "admin.key_show", "show an API key, without its secret", *named)


def _user_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "create",
        "admin.user_create",
        "create a user; asks for the password, or reads it from standard input",
        option("org", ONE_ORG),
        option("email", required=True),
        option("role", required=True, type=LazyChoice(_list_roles)),
        act="user create",
    )
    yield CliCommand(
        "set-password",
        "admin.user_set_password",
        "set a new password; asks for it, or reads it from standard input",
        option("email", required=True),
        act="user set-password",
    )
    yield CliCommand(
        "reset-totp",
        "admin.user_reset_totp",
        "turn off two-factor authentication for a user who lost access to it",
        option("email", required=True),
        act="user reset-totp",
    )
    yield CliCommand("list", "admin.user_list", "list users", option("org", ALL_ORGS))
    yield CliCommand("show", "admin.user_show", "show a user", argument("email", "the e-mail address, or the id"))


def _account_commands() -> Iterator[click.Command]:
    yield CliCommand(
        "add",
        "admin.account_add",
        "add an account from its tokens (JSON on standard input)",
        *_profile_options(),
        option("platform", required=True, type=LazyChoice(_list_platforms)),
        option("platform-account-id", required=True),
        option("display-name"),
        act="account add",
    )
    yield CliCommand(
        "list",
        "admin.account_list",
        "list connected accounts, without their tokens",
        option("org", ALL_ORGS),
        option("profile", "only this profile"),
        option("platform", type=LazyChoice(_list_platforms)),
        option("status", type=LazyChoice(_list_account_states)),
    )
    named = (argument("id", "its id, its name or handle, or its id on the platform"), option("org", WITHIN))
    yield CliCommand("show", "admin.account_show", "show an account, without its tokens", *named)
    yield CliCommand(
        "disconnect",
        "admin.account_disconnect",
        "disconnect an account and delete its tokens; asks for confirmation",
        *named,
        flag("cancel", "cancel its scheduled posts; without this option they stay scheduled"),
        flag("yes", "do not ask"),
        act="account disconnect",
    )
    yield LazyGroup(
        "connect",
        "connect an account by its credentials; asks for the secret, or reads it from standard input",
        _connect_commands,
    )


def _profile_options() -> Iterator[click.Option]:
    """Yield the options for the home of an account."""
    yield option("org", ONE_ORG)
    yield option("profile", ONE_PROFILE)


def _connect_commands() -> Iterator[click.Command]:
    from socialpub.platforms import PLATFORMS

    for platform in PLATFORMS.values():
        if platform.credentials:
            named = [field for field in platform.credentials if not field.secret]
            yield CliCommand(
                platform.name,
                "admin.account_connect",
                f"connect a {platform.label} account",
                *_profile_options(),
                *(option(field.name, field.label, required=True) for field in named),
                act=f"account connect {platform.name}",
                sets={"platform": platform.name},
            )


# --- Looked up when needed: importing them takes longer than all of the above --------------------------------------


def _describe_ports() -> str:
    from socialpub.platforms import PLATFORMS

    return f"the first of {1 + len(PLATFORMS)} ports in a row: the control page, then one for each platform"


def _list_sources() -> Iterable[str]:
    from socialpub.commands.foreign_exports import SOURCES

    return SOURCES


def _list_platforms() -> Iterable[str]:
    from socialpub.platforms import PLATFORMS

    return sorted(PLATFORMS)


def _list_events() -> Iterable[str]:
    from socialpub.domain.schemas.events import EVENTS

    return EVENTS


def _list_tiers() -> Iterable[str]:
    from socialpub.domain.organizations.billing import TIERS

    return TIERS


def _list_roles() -> Iterable[str]:
    from socialpub.domain.identity.users import ROLES

    return ROLES


def _list_post_states() -> Iterable[str]:
    from socialpub.store.rows import PostStatus

    return get_args(PostStatus)


def _list_account_states() -> Iterable[str]:
    from socialpub.store.rows import AccountStatus

    return get_args(AccountStatus)
