"""Table of the commands over the API: their syntax and their functions, without logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import click

from socialpub_client import __version__
from socialpub_client.apply import command_line
from socialpub_client.commands.click_types import (
    API_OPTIONS,
    ApiCommand,
    ApiGroup,
    UsageGroup,
    argument,
    flag,
    option,
    repeat_option,
)

PATH = click.Path(path_type=Path)
INPUT = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
HEADING = "Commands over the API (--url, --key)"
STATUSES = ("queued", "validated", "publishing", "published", "failed", "rejected", "canceled")


@dataclass(frozen=True)
class CommandSet:
    """Commands that a package adds to the program.

    A command, invoked, returns a function that runs it and returns the exit code. `options` are valid before the first
    word too. `api_commands` are listed with those over the API.
    """

    heading: str
    commands: Sequence[click.Command]
    options: Sequence[click.Parameter] = ()
    api_commands: Sequence[click.Command] = ()


def parse(arguments: Sequence[str] | None, sets: Iterable[CommandSet]) -> Callable[[], int] | None:
    """Parse the command line; None if only help, version or completion was printed.

    Raises click.UsageError for invalid input.
    """
    found = build_root(sets).main(arguments, prog_name="socialpub", standalone_mode=False)
    return cast("Callable[[], int]", found) if callable(found) else None


def build_root(sets: Iterable[CommandSet]) -> ProgramGroup:
    """Build all commands with their options; common ones are valid before and after."""
    others = list(sets)
    more = [command for each in others for command in each.api_commands]
    return ProgramGroup([CommandSet(HEADING, [*_commands(), *more], API_OPTIONS), *others])


class ProgramGroup(UsageGroup):
    """The program: its commands under a heading for each set. Two sets may not have one name."""

    def __init__(self, sets: Sequence[CommandSet]) -> None:
        commands = [command for each in sets for command in each.commands]
        twice = {command.name for command in commands if [other.name for other in commands].count(command.name) > 1}
        if twice:
            raise ValueError(f"commands with one name: {sorted(map(str, twice))}")
        options = {option.name: option for each in sets for option in each.options}
        about = "Publish to social platforms: once, on time, with proof."
        super().__init__(
            "socialpub", [*commands, HELP], help=about, short_help=about, params=[_version(), *options.values()]
        )
        self._sets = sets

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for each in self._sets:
            if each.commands:
                with formatter.section(each.heading):
                    formatter.write_dl([(str(one.name), one.get_short_help_str(200)) for one in each.commands])
        with formatter.section("Help"):
            formatter.write_dl([(str(HELP.name), HELP.get_short_help_str(200))])


def _version() -> click.Option:
    def tell(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(__version__)
            ctx.exit()

    return option(
        "version", "print the version and exit", is_flag=True, is_eager=True, expose_value=False, callback=tell
    )


def _tell_exit_codes() -> None:
    from socialpub_client.commands.exit_codes import MEANINGS

    for code, meaning in MEANINGS.items():
        click.echo(f"{code:>3}  {meaning}")


HELP = UsageGroup(
    "help",
    [click.Command("exit-codes", callback=_tell_exit_codes, help="list the exit codes and what they mean")],
    help="what is the same for every command",
    short_help="what is the same for every command: exit-codes",
)


def _commands() -> Iterator[click.Command]:
    yield from _server_commands()
    yield _post_command()
    yield _posts_commands()
    yield _media_commands()
    yield ApiCommand(
        "events",
        "events.events",
        "print events, oldest first, as JSON, one a line; the last cursor goes to standard error",
        flag("follow", "wait for more, without end"),
        option("after", "only events after this cursor; `end`: only new ones", metavar="CURSOR"),
        option("types", "only these types, separated by commas"),
        option("cursor-file", "begin after the cursor in this file, and keep the last one there", type=PATH),
    )
    yield _accounts_commands()
    yield _webhooks_commands()
    yield ApiCommand(
        "api",
        "api.api",
        "send any request, and print the response",
        argument("method", type_=click.Choice(("GET", "POST", "PUT", "PATCH", "DELETE"), case_sensitive=False)),
        argument("path", "such as /v1/posts?status=failed"),
        option(
            "field",
            "a field of the body; of a GET, of the query; repeat for several. "
            "A value that is JSON (5, true, [1]) is sent as that",
            short="f",
            multiple=True,
            metavar="NAME=VALUE",
        ),
        option("input", "the body, from a file; - is standard input", type=INPUT),
        flag("paginate", "all pages of a list, one row a line"),
        option("include", "print the status and the headers first", short="i", is_flag=True),
        repeat_option(),
    )
    yield command_line.build_command()
    yield ApiCommand(
        "mcp",
        "mcp_command.serve",
        "serve tools for assistants by the Model Context Protocol",
        option("http", "serve over HTTP; each request brings its own key", metavar="HOST:PORT"),
        option("media-root", "the folder whose files may be uploaded; not over HTTP", metavar="FOLDER"),
        flag("read-only", "only tools that read"),
        flag("no-ask", "publish plans without asking the user first"),
    )


def _server_commands() -> Iterator[click.Command]:
    name = argument("name", "what to call it", required=False)
    yield ApiCommand(
        "login", "login.login", "store a server and its key, which is asked for, or read from standard input", name
    )
    yield ApiCommand("whoami", "login.whoami", "show what the key belongs to and may do")
    yield ApiCommand("logout", "login.logout", "forget a server and its key", name)


def _content_options() -> Iterator[click.Option]:
    """Yield the options for what a post has beside its text."""
    yield option(
        "media",
        'a file, the id of an uploaded one, or a URL; with its description: door.jpg="A door"; repeat for several',
        multiple=True,
        metavar="FILE[=ALT]",
    )
    yield option("option", "an option of a platform; repeat for several", multiple=True, metavar="PLATFORM.NAME=VALUE")


def _time_options() -> Iterator[click.Option]:
    yield option("at", "when, such as 2030-12-01T09:30+01:00, or a local time with --zone", metavar="TIME")
    yield option("zone", "the time zone of --at, such as Europe/Berlin")


def _post_command() -> click.Command:
    return ApiCommand(
        "post",
        "post.post",
        "publish a text, now or later; - reads it from standard input",
        argument("text", required=False),
        option("file", "read the text from this file", type=INPUT),
        option(
            "to",
            "a platform, an account's id, its @name as `accounts list` shows it, or a group's name; repeat for several",
            multiple=True,
        ),
        *_content_options(),
        *_time_options(),
        option("first-comment", "a reply below the post"),
        option("thread", "a file with the pieces that follow, separated by lines of ---", type=INPUT),
        option("external-id", "your own id: the same post again with it is not published twice"),
        repeat_option(),
        option("on-duplicate", "of a text that the account had within a day", type=click.Choice(("warn", "refuse"))),
        flag("check", "only check it: nothing is published"),
        option(
            "wait",
            "wait until every target has ended, at most so many seconds; without it, 25",
            is_flag=False,
            flag_value="300",
            type=click.FloatRange(1, 86400),
            metavar="[SECONDS]",
        ),
        flag("no-wait", "do not wait: the outcome is shown by `posts show`"),
        flag("show-request", "print the requests as curl, and send nothing"),
    )


def _posts_commands() -> click.Command:
    post = argument("id", "the id of the post")
    seen = option("if-match", "only if its version (ETag) is still this one", metavar="ETAG")
    sure, repeat = flag("yes", "do not ask"), repeat_option()
    return ApiGroup(
        "posts",
        "list and change posts",
        ApiCommand(
            "list",
            "posts.list_posts",
            "list posts, newest first",
            option("status", "only with this status; repeat for several", multiple=True, type=click.Choice(STATUSES)),
            option("platform", "only on this platform; repeat for several", multiple=True),
            option("account", "only to this account, by id or @name"),
            option("q", "only with these words in their text"),
            option("batch", "only of this batch"),
            option("external-id", "only with this external id"),
            option("scheduled-after", "only scheduled after this time", metavar="TIME"),
            option("scheduled-before", "only scheduled before this time", metavar="TIME"),
            option("zone", "the time zone of the two, where they have no offset, such as Europe/Berlin"),
            option("limit", "at most so many; 0: all", type=click.IntRange(0), default=50),
            flag("ids", "print ids only, for pipes"),
        ),
        ApiCommand("show", "posts.show", "show a post with its attempts", post),
        ApiCommand(
            "edit",
            "posts.edit",
            "change the content of a queued post",
            post,
            option("text", "the new text; - reads it from standard input"),
            option("file", "read the new text from this file", type=INPUT),
            *_content_options(),
            seen,
            repeat,
        ),
        ApiCommand("move", "posts.move", "change the time of a queued post", post, *_time_options(), seen, repeat),
        ApiCommand("cancel", "posts.cancel", "cancel a queued post; asks for confirmation", post, seen, sure, repeat),
        ApiCommand("retry", "posts.retry", "publish a failed post again", post, *_time_options(), repeat),
        ApiCommand(
            "settle",
            "posts.settle",
            "tell whether a post whose outcome is unknown is on the platform",
            post,
            option("published/--not-published", "whether it is there", required=True),
            option("uri", "where it is"),
            repeat,
        ),
    )


def _media_commands() -> click.Command:
    media = argument("id", "the id of the file")
    return ApiGroup(
        "media",
        "upload and list files",
        ApiCommand(
            "upload",
            "media.upload",
            "upload files; prints an id for each",
            argument("files", type_=PATH, nargs=-1, required=True),
            option("alt", "the description of the file"),
            repeat_option(),
        ),
        ApiCommand(
            "list",
            "media.list_media",
            "list uploaded files, newest first",
            option("sha256", "only the file with this SHA-256"),
            option("limit", "at most so many; 0: all", type=click.IntRange(0), default=50),
        ),
        ApiCommand("show", "media.show", "show an uploaded file", media),
        ApiCommand(
            "delete",
            "media.delete",
            "delete an uploaded file; asks for confirmation",
            media,
            flag("yes", "do not ask"),
            repeat_option(),
        ),
    )


def _accounts_commands() -> click.Command:
    account = argument("id", "the account's id, its @name, or its platform if that has no other")
    return ApiGroup(
        "accounts",
        "list connected accounts",
        ApiCommand(
            "list",
            "accounts.list_accounts",
            "list connected accounts",
            option("platform", "only of this platform"),
            option("status", "only with this status", type=click.Choice(("active", "expiring", "revoked"))),
        ),
        ApiCommand("show", "accounts.show", "show a connected account", account),
        ApiCommand("boards", "accounts.boards", "list the Pinterest boards of an account", account),
    )


def _webhooks_commands() -> click.Command:
    endpoint, repeat = argument("id", "the id of the endpoint"), repeat_option()
    return ApiGroup(
        "webhooks",
        "endpoints that receive events",
        ApiCommand("list", "webhooks.list_endpoints", "list endpoints"),
        ApiCommand("show", "webhooks.show", "show an endpoint", endpoint),
        ApiCommand(
            "create",
            "webhooks.create",
            "create an endpoint; its secret is shown once",
            argument("address", "the URL that receives the events"),
            option("types", "only these event types, separated by commas"),
            option("description", "what it is for, in your words"),
            repeat,
        ),
        ApiCommand(
            "change",
            "webhooks.change",
            "change an endpoint",
            endpoint,
            option("address", "the new URL"),
            option("types", "only these event types, separated by commas; empty: all"),
            option("description", "what it is for, in your words"),
            option("active/--inactive", "whether it receives events", default=None),
            repeat,
        ),
        ApiCommand(
            "delete",
            "webhooks.delete",
            "delete an endpoint; asks for confirmation",
            endpoint,
            flag("yes", "do not ask"),
            repeat,
        ),
        ApiCommand("rotate", "webhooks.rotate", "give an endpoint a new secret, which is shown once", endpoint, repeat),
        ApiCommand(
            "deliveries",
            "webhooks.deliveries",
            "list deliveries, newest first",
            option("endpoint", "only to this endpoint", metavar="ID"),
            option("status", "only with this status", type=click.Choice(("pending", "succeeded", "failed"))),
            option("limit", "at most so many; 0: all", type=click.IntRange(0), default=50),
        ),
        ApiCommand(
            "redeliver", "webhooks.redeliver", "send a delivery again", argument("id", "of the delivery"), repeat
        ),
    )
