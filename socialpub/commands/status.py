"""`socialpub status`: how things stand, read beside a running server or without one; changes nothing."""

from __future__ import annotations

from typing import Any

from socialpub.base.runtime import SystemClock
from socialpub.commands.parts import Options
from socialpub.commands.serve import RefusedError, check_schema, settings_of
from socialpub.domain.engine import standing
from socialpub.domain.engine.standing import Standing
from socialpub.store import db
from socialpub.store.locks import is_served

NEEDS_SOMEBODY = 1


def status(options: Options) -> dict[str, Any] | None:
    """All of `Standing`; exit code 1 where something needs somebody."""
    found = _found(options)
    options.exit_code = 0 if found["ok"] else NEEDS_SOMEBODY
    if options.json:
        return dict(found)
    for line in _lines(found):
        print(line)
    return None


def _found(options: Options) -> Standing:
    path = settings_of(options).database_path
    if not path.exists():
        raise RefusedError(f"{path} is not there: there is nothing to tell of")
    check_schema(path)
    database, running, now = db.Database(path).open(), is_served(path), SystemClock().now_ms()
    try:
        return database.read(lambda: standing.look(now, running=running)).result()
    finally:
        database.close()


def _lines(found: Standing) -> list[str]:
    server, backlog, due = found["server"], found["backlog"], found["next"]
    jobs = ", ".join(f"{count} {kind}" for kind, count in backlog["jobs"].items())
    how = f"PAUSED: {found['paused']}" if found["paused"] else "goes on"
    return [
        f"server       {'runs' if server['running'] else 'does not run'}, seen {server['seenAt'] or 'never'}",
        f"publishing   {how}, {found['publishing']} on their way",
        f"overdue      {found['overdue']['count']}",
        f"to be told   {backlog['deliveries']} deliveries, {backlog['notifications']} notifications",
        f"jobs due     {jobs or 'none'}",
        f"due next     {'none' if not due else ''}".rstrip(),
        *(f"  {post['dueAt']}  {post['platform']} {post['account']}  {post['id']}" for post in due),
        *(f"FAIL  {problem}" for problem in found["problems"]),
        *(["Nothing needs you."] if found["ok"] else []),
    ]
