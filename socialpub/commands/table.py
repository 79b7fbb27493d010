"""Table of commands: their syntax and their functions, without logic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

import click

from socialpub import __version__
from socialpub.commands.parts import Command, Group, LateGroup, OneOf, Options, argument, file, flag, option

ONE_ORG = "the organization, by id or name; optional where there is only one"
ONE_PROFILE = "the profile, by id or name; optional where there is only one"
ID_OR_NAME = "its id or its name"
WITHIN = "the organization to look in"
ALL_ORGS = "only those of this organization"


def parsed(arguments: Sequence[str] | None = None) -> Options | None:
    """Parse the command line; None if only help, version or completion was printed.

    Raises click.UsageError for invalid input.
    """
    found = root().main(arguments, prog_name="socialpub", standalone_mode=False)
    return found if isinstance(found, Options) else None


def root() -> Group:
    """Build all commands with their options; common ones are valid before and after."""
    return Group(
        "socialpub",
        "Publish to social platforms: once, on time, with proof.",
        *_serving(),
        *_keeping(),
        *_carrying(),
        _master_key(),
        Group(
            "config",
            "the settings file",
            Command("example", "example.show", "print socialpub.toml.example: every setting with its default"),
        ),
        *_webhooks(),
        *_administration(),
        params=[_version()],
    )


def _version() -> click.Option:
    def tell(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(__version__)
            ctx.exit()

    return option(
        "version", "print the version and exit", is_flag=True, is_eager=True, expose_value=False, callback=tell
    )


def _serving() -> Iterator[click.Command]:
    yield Command(
        "serve",
        "serve.serve",
        "migrate, then run API, queue and scheduler in one process",
        option("host"),
        option("port", type=int),
    )
    yield Command(
        "demo",
        "demo.demo",
        "serve on a fresh database with the built-in platform simulator",
        option("port", type=int),
        flag("once", "publish one batch, print its result, exit"),
    )
    yield Command(
        "simulator",
        "demo.simulator",
        "the platform simulator alone",
        option("host", default="127.0.0.1"),
        option("port", _ports, type=int, default=8090),
        option("ledger", "append what is published to this file, a JSON line each", type=click.Path(path_type=Path)),
    )


def _keeping() -> Iterator[click.Command]:
    yield Command("migrate", "admin.migrate", "bring the database to the newest schema", act="migrate", done="applied")
    yield Command(
        "resume",
        "resume.resume",
        "resume publishing after a pause; shows first what is overdue",
        flag("after-restore", "confirm that the restored database is the one to go on with"),
        flag("skip-overdue", "fail every overdue post instead of publishing it"),
        act="resume",
        done="was",
    )
    yield Command(
        "backup",
        "backup.backup",
        "write database and media to one file, beside a running server",
        file("a new file, such as socialpub-2026-11-22.zip, or s3:NAME, in the bucket of the settings"),
        flag("with-keys", "the master key too: who has the file can read all tokens"),
        act="backup",
        done="file",
    )
    yield Command("verify", "backup.verify", "read all of a backup, as a restore would", file())
    yield Command("backups", "backup.listed", "the backups that the server made by itself, in its folder and bucket")
    yield Command(
        "restore",
        "backup.restore",
        "put a backup in its place; the server then starts paused",
        file(),
        act="restore",
        done="database",
    )
    yield Command(
        "move",
        "move.move",
        "hand the data over to another place: it starts no more here, and its copy starts there without a pause",
        flag("back", "it stays here after all, and was started nowhere else"),
        act="move",
        done="database",
    )
    yield Command(
        "status",
        "status.status",
        "what is due, overdue, failing or in need of somebody; exit code 1 where something is",
    )
    yield Command(
        "doctor",
        "doctor.doctor",
        "look at all that a server needs, and say what is wrong",
        flag("offline", "only what is on this machine"),
    )


def _master_key() -> Group:
    return Group(
        "keys",
        "the master key, which seals the accounts' tokens and all other secrets",
        Command(
            "rotate",
            "keys.rotate",
            "a new master key; seals everything anew, beside a running server",
            act="keys rotate",
            done="keyId",
        ),
        Command(
            "forget",
            "keys.forget",
            "start without a master key that is lost: every account then has to be connected again",
            flag("yes", "do not ask"),
            act="keys forget",
            done="keyId",
        ),
    )


def _carrying() -> Iterator[click.Command]:
    yield Command(
        "export",
        "carrying.export",
        "write posts with what became of them to a new file: a JSON object a line, or CSV",
        file("a new file; .csv is CSV, anything else NDJSON; - is standard output"),
        option("org", ONE_ORG),
        flag("accounts", "the accounts in place of the posts, without their tokens"),
        flag("csv", "CSV, whatever the file is called"),
        option("status", "only posts with this status; may be given several times", multiple=True, type=OneOf(_states)),
        option("account", "only posts to this account, by id or name"),
        option("after", "only posts created after this time", metavar="TIME"),
        option("before", "only posts created before this time", metavar="TIME"),
    )
    yield Command(
        "import",
        "carrying.bring",
        "schedule the posts of a file; looks through all of it first, and imports what is not there yet",
        file("NDJSON, or CSV where it is called .csv: account, scheduledAt, text, media, options"),
        option("org", ONE_ORG),
        flag("check", "only look through it"),
        flag("skip-invalid", "import the lines that are right, though others are not"),
        act="import",
        done="imported",
    )


def _webhooks() -> Iterator[click.Command]:
    yield Command(
        "listen",
        "listen.listen",
        "forward every event that happens from now on to an address of this machine, signed like a delivery",
        *_over_the_api(),
        option("forward-to", "such as http://localhost:3000/hook", metavar="URL"),
        option("types", "only these types, separated by commas"),
        flag("print", "print the events themselves, too"),
        option("secret", "sign with this secret (whsec_ and base64), not with a new one"),
        option("header-prefix", "webhooks.header_prefix of the server", default="X-Service"),
    )
    yield Command(
        "trigger",
        "listen.trigger",
        "send a sample event to the webhook endpoints that want its type",
        argument("type", type_=OneOf(_events)),
        *_over_the_api(),
        option("endpoint", "to this endpoint, also if it is off or wants other types", metavar="ID"),
        option("data", "what the sample carries in place of its example data", metavar="JSON"),
    )


def _over_the_api() -> Iterator[click.Option]:
    """Yield the options for a server anywhere."""
    yield option("url", "the server", default="http://127.0.0.1:8080", envvar="SOCIALPUB_URL", show_envvar=True)
    yield option("key", "an API key", required=True, envvar="SOCIALPUB_KEY", show_envvar=True)


def _administration() -> Iterator[click.Command]:
    yield Group("org", "organizations", *_organizations())
    yield Group("profile", "profiles of an organization", *_profiles())
    yield Group("key", "API keys", *_keys())
    yield Group("user", "people who sign in", *_users())
    yield Group("account", "connected accounts", *_accounts())


def _organizations() -> Iterator[click.Command]:
    yield Command(
        "create",
        "admin.org_create",
        "a new organization with its first profile",
        argument("name"),
        act="org create",
    )
    yield Command(
        "rename",
        "admin.org_rename",
        "give an organization another name",
        argument("id", ID_OR_NAME),
        argument("name"),
        act="org rename",
    )
    yield Command(
        "delete",
        "admin.org_delete",
        "delete an organization for good; without --yes it only says what that ends",
        argument("id", ID_OR_NAME),
        flag("yes", "delete it"),
        act="org delete",
    )
    yield Command("list", "admin.org_list", "every organization with its id")
    yield Command("show", "admin.org_show", "an organization, and how much it has of what", argument("id", ID_OR_NAME))
    yield Command(
        "set-tier",
        "admin.org_set_tier",
        "the tier that decides how many posts a month an organization may make; enterprise, self_host: any number",
        argument("id", ID_OR_NAME),
        argument("tier", type_=OneOf(_tiers)),
        act="org set-tier",
    )


def _profiles() -> Iterator[click.Command]:
    yield Command(
        "create",
        "admin.profile_create",
        "a new profile",
        argument("name"),
        option("org", ONE_ORG),
        act="profile create",
    )
    yield Command("list", "admin.profile_list", "the profiles of an organization", option("org", ONE_ORG))
    yield Command(
        "show",
        "admin.profile_show",
        "a profile, and how much it has of what",
        argument("id", ID_OR_NAME),
        option("org", WITHIN),
    )


def _keys() -> Iterator[click.Command]:
    yield Command(
        "create",
        "admin.key_create",
        "a new API key, shown this once",
        option("org", ONE_ORG),
        option("profile", "only for this profile, by id or name"),
        option("name", default="command line"),
        flag("test", "label it as a test key; it works like any other"),
        act="key create",
    )
    named = (argument("id", "its id, its name or its last four characters"), option("org", WITHIN))
    yield Command("revoke", "admin.key_revoke", "revoke an API key", *named, act="key revoke")
    yield Command("list", "admin.key_list", "every API key, without its secret", option("org", ALL_ORGS))
    yield Command("show", "admin.key_show", "an API key, without its secret", *named)


def _users() -> Iterator[click.Command]:
    yield Command(
        "create",
        "admin.user_create",
        "a new user; asks for the password, or reads it from standard input",
        option("org", ONE_ORG),
        option("email", required=True),
        option("role", required=True, type=OneOf(_roles)),
        act="user create",
    )
    yield Command(
        "set-password",
        "admin.user_set_password",
        "set a new password; asks for it, or reads it from standard input",
        option("email", required=True),
        act="user set-password",
    )
    yield Command(
        "reset-totp",
        "admin.user_reset_totp",
        "turn off the second factor of somebody who has lost it",
        option("email", required=True),
        act="user reset-totp",
    )
    yield Command("list", "admin.user_list", "the users who can sign in", option("org", ALL_ORGS))
    yield Command("show", "admin.user_show", "a user", argument("email", "the e-mail address, or the id"))


def _accounts() -> Iterator[click.Command]:
    yield Command(
        "add",
        "admin.account_add",
        "add an account from its tokens (JSON on standard input)",
        *_home(),
        option("platform", required=True, type=OneOf(_platforms)),
        option("platform-account-id", required=True),
        option("display-name"),
        act="account add",
    )
    yield Command(
        "list",
        "admin.account_list",
        "connected accounts, without their tokens",
        option("org", ALL_ORGS),
        option("profile", "only those of this profile"),
        option("platform", type=OneOf(_platforms)),
        option("status", type=OneOf(_statuses)),
    )
    named = (argument("id", "its id, its name or handle, or its id at the platform"), option("org", WITHIN))
    yield Command("show", "admin.account_show", "an account, without its tokens", *named)
    yield Command(
        "disconnect",
        "admin.account_disconnect",
        "erase an account's tokens; says what happens, and asks",
        *named,
        flag("cancel", "cancel the posts that wait for it; they are kept otherwise"),
        flag("yes", "do not ask"),
        act="account disconnect",
    )
    yield LateGroup(
        "connect",
        "connect an account by its credentials; asks for the secret, or reads it from standard input",
        _connecting,
    )


def _home() -> Iterator[click.Option]:
    """Yield the options for the home of an account."""
    yield option("org", ONE_ORG)
    yield option("profile", ONE_PROFILE)


def _connecting() -> Iterator[click.Command]:
    from socialpub.platforms import PLATFORMS

    for platform in PLATFORMS.values():
        if platform.credentials:
            named = [field for field in platform.credentials if not field.secret]
            yield Command(
                platform.name,
                "admin.account_connect",
                f"connect a {platform.label} account",
                *_home(),
                *(option(field.name, field.label, required=True) for field in named),
                act=f"account connect {platform.name}",
                sets={"platform": platform.name},
            )


# --- Looked up when needed: importing them takes longer than all of the above --------------------------------------


def _ports() -> str:
    from socialpub.platforms import PLATFORMS

    return f"the first of {1 + len(PLATFORMS)} ports in a row: the control page, then one for each platform"


def _platforms() -> Iterable[str]:
    from socialpub.platforms import PLATFORMS

    return sorted(PLATFORMS)


def _events() -> Iterable[str]:
    from socialpub.domain.core.events import EVENTS

    return EVENTS


def _tiers() -> Iterable[str]:
    from socialpub.domain.people.billing import TIERS

    return TIERS


def _roles() -> Iterable[str]:
    from socialpub.domain.people.users import ROLES

    return ROLES


def _states() -> Iterable[str]:
    from socialpub.store.rows import PostStatus

    return get_args(PostStatus)


def _statuses() -> Iterable[str]:
    from socialpub.store.rows import AccountStatus

    return get_args(AccountStatus)
