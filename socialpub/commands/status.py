"""`socialpub status`: state of the server, read with or without it; changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from socialpub.base.config import Settings
from socialpub.base.runtime import SystemClock
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import check_schema, find_database, load_settings
from socialpub.domain.operations import server_status
from socialpub.domain.operations.server_status import ServerStatus
from socialpub.store import database as db
from socialpub.store.engine.locks import is_served

NEEDS_ATTENTION = 1


def status(options: CommandOptions) -> dict[str, Any]:
    """Show the status; exit code 1 if something needs attention."""
    settings = load_settings(options)
    found = _load(settings)
    options.exit_code = 0 if found["ok"] else NEEDS_ATTENTION
    options.sentences = [*_describe(found), f"The settings were read from {settings.read_from}."]
    return dict(found)


def _load(settings: Settings) -> ServerStatus:
    path = find_database(settings)
    check_schema(path)
    with contextlib.closing(db.Database(path).open()) as database:
        running, now = is_served(path), SystemClock().now_ms()
        return database.read(lambda: server_status.load_status(settings, now, running=running)).result()


def _describe(found: ServerStatus) -> Iterator[str]:
    wrong = server_status.list_findings(found)
    if not any(finding.about == server_status.SERVER for finding in wrong):
        yield f"A server runs on this database. It last responded at {found['server']['seenAt']}."
    if not found["paused"]:
        yield f"Publishing is active; {server_status.format_posts(found['publishing'])} on their way."
    if not found["overdue"]["count"]:
        yield "No post is overdue."
    yield from _describe_backlog(found)
    yield from _describe_due(found)
    for finding in wrong:
        yield f"FAIL  {finding.problem}"
        yield f"      {finding.remedy}"
    yield "Something needs attention: see FAIL above." if wrong else "Nothing needs attention."


def _describe_backlog(found: ServerStatus) -> Iterator[str]:
    backlog = found["backlog"]
    waiting = f"{backlog['deliveries']} webhook deliveries and {backlog['notifications']} notifications"
    yield f"{waiting} are still to be sent."
    if backlog["jobs"]:
        yield f"Jobs are due: {', '.join(f'{count} {kind}' for kind, count in backlog['jobs'].items())}."


def _describe_due(found: ServerStatus) -> Iterator[str]:
    if not found["next"]:
        yield "No post is scheduled."
        return
    yield "The next posts are due:"
    for post in found["next"]:
        yield f"  {post['dueAt']}  {post['platform']} {post['account']}  {post['id']}"
