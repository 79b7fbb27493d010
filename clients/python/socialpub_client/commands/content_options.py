"""Options with content: texts, media, targets, platform options, threads."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from socialpub_client import account_names
from socialpub_client.answers import PLATFORMS, Account
from socialpub_client.client import Socialpub
from socialpub_client.commands import runner
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.times import parse_time
from socialpub_client.content import MEDIA_ID, UUID, Media, Target, as_media
from socialpub_client.errors import InvalidArgument

TEXT_MAX = 1 << 20
THREAD_MAX = 24
STDIN = "-"


def read_text(options: ApiOptions, text: str | None) -> str | None:
    """Return the text: as given, from `--file`, or from standard input for `-`."""
    if options.file is not None:
        if text is not None:
            options.usage("give the text or --file, not both")
        text = read_input(options, options.file)
    elif text == STDIN:
        text = runner.read_stdin(options)
    return None if text is None else text.removesuffix("\n")


def read_input(options: ApiOptions, path: Path, most: int = TEXT_MAX) -> str:
    """Return the text of a file of at most `most` bytes; `-` is standard input."""
    if str(path) == STDIN:
        return runner.read_stdin(options)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        options.usage(f"{path} is longer than {most} bytes")
    try:
        return runner.decode_text(content)
    except UnicodeDecodeError:
        options.usage(f"{path} is not UTF-8")


def read_thread(options: ApiOptions) -> list[dict[str, str]] | None:
    """Read the pieces after the first, separated by lines of `---`."""
    if options.thread is None:
        return None
    pieces, lines = list[dict[str, str]](), [*read_input(options, options.thread).split("\n"), "---"]
    current: list[str] = []
    for line in lines:
        if line.rstrip() != "---":
            current.append(line)
            continue
        if text := "\n".join(current).strip("\n"):
            pieces.append({"text": text})
        current = []
    if not 1 <= len(pieces) <= THREAD_MAX:
        options.usage(f"{options.thread} must have 1 to {THREAD_MAX} pieces, separated by lines of ---")
    return pieces


def read_time(options: ApiOptions) -> datetime | None:
    """Return `--at` in `--zone`."""
    return read_times(options, "at")[0]


def read_times(options: ApiOptions, *names: str) -> list[datetime | None]:
    """Return the times of these options in `--zone`."""
    words = {name: f"--{name.replace('_', '-')}" for name in names}
    given = {name: getattr(options, name) for name in names}
    if options.zone is not None and not any(given.values()):
        options.usage(f"--zone needs {' or '.join(words.values())}")
    found = list[datetime | None]()
    for name, text in given.items():
        try:
            found.append(None if text is None else parse_time(text, options.zone))
        except ValueError as error:
            options.usage(f"{words[name]}: {error}")
    return found


def read_media(options: ApiOptions) -> list[Media]:
    """Return the items of `--media`.

    A file may have = in its name: the description begins after the name of an existing file.
    """
    return [_read_item(options, given) for given in options.media]


def _read_item(options: ApiOptions, given: str) -> Media:
    source, alt = _split_alt(given)
    if source.startswith("http://"):
        options.usage("--media: a URL begins with https://")
    if source.startswith("https://") or MEDIA_ID.fullmatch(source):
        item = as_media(source)
        return Media(id=item.id, url=item.url, alt=alt)
    check_file(options, source, "--media: ")
    return Media(path=source, alt=alt)


def check_file(options: ApiOptions, path: str | Path, where: str = "") -> None:
    """Raise UsageError where there is no file, or one that cannot be read."""
    if not os.path.isfile(path):  # Path.is_file raises OSError for a name that is too long
        options.usage(f"{where}there is no file {path}")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        options.usage(f"{where}{path} cannot be read: {error.strerror}")


def _split_alt(given: str) -> tuple[str, str | None]:
    """Split `FILE=ALT` at the first = that leaves a usable source."""
    if os.path.isfile(given) or "=" not in given:  # Path.is_file raises OSError where the description is long
        return given, None
    if given.startswith(("https://", "http://")) and "?" in given.partition("=")[0]:
        return given, None  # the = is of the query: a URL like that takes no description
    first, _, alt = source, _, rest = given.partition("=")
    while not source.startswith(("https://", "http://")) and not MEDIA_ID.fullmatch(source):
        if os.path.isfile(source):
            break
        if "=" not in rest:
            return first, alt or None
        more, _, rest = rest.partition("=")
        source = f"{source}={more}"
    return source, rest or None


def read_platform_options(options: ApiOptions) -> dict[str, dict[str, Any]]:
    """Return `--option PLATFORM.NAME=VALUE` by platform; a value that is JSON is sent as that."""
    found: dict[str, dict[str, Any]] = {}
    for given in options.option:
        name, equals, value = given.partition("=")
        platform, dot, field = name.partition(".")
        if not (equals and dot and platform and field):
            options.usage(f"--option: {given!r} is not PLATFORM.NAME=VALUE")
        found.setdefault(platform, {"platform": platform})[field] = parse_value(value)
    return found


def parse_value(text: str) -> Any:
    """Return JSON as its value, anything else as text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# --- Targets -------------------------------------------------------------------------------------------------------


def find_account(options: ApiOptions, client: Socialpub, name: str) -> str:
    """Return the id of an account by its id or @name, or that of the only one of a platform."""
    if UUID.fullmatch(name):
        return name
    try:
        return account_names.find_account(client.accounts.list(), name).id
    except InvalidArgument as error:
        options.usage(error.message)


def _list_accounts(options: ApiOptions, load: Callable[[], Sequence[Account]], name: str) -> list[str]:
    """Return the platform or id as it is, the id of an @name, or those of a group."""
    if name in PLATFORMS or UUID.fullmatch(name):
        return [name]
    known = load()
    if any(account.platform == name for account in known):  # a platform that this version does not know
        return [name]
    try:
        if name.startswith("@"):
            return [account_names.find_account(known, name).id]
        return [account.id for account in account_names.find_group(known, name)]
    except InvalidArgument as error:
        options.usage(error.message)


def read_targets(options: ApiOptions, client: Socialpub) -> list[Target]:
    """Return the targets of `--to`, with the options of their platforms."""
    if not options.to:
        options.usage("give --to: a platform, an account's id or @name, or a group")
    own = read_platform_options(options)
    load = functools.cache(client.accounts.list)
    targets = [Target(account) for name in options.to for account in _list_accounts(options, load, name)]
    if len({target.account for target in targets}) < len(targets):
        options.usage("--to: the same target is there twice")
    if not own:
        return targets
    platforms = {account.raw["id"]: str(account.raw["platform"]) for account in load()}
    named = {target.account: platforms.get(target.account, target.account) for target in targets}
    if unused := set(own) - set(named.values()):
        options.usage(f"--option: no target is on {sorted(unused)[0]}")
    return [Target(target.account, options=own.get(named[target.account])) for target in targets]
