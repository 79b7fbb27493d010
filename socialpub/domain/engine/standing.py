"""How things stand, for the operator: what is due, late and failing over all organizations, and what needs somebody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from socialpub.base.runtime import DAY_MS, iso
from socialpub.domain.core import instance
from socialpub.domain.engine.kinds import KINDS
from socialpub.domain.shapes.health import PausedReason
from socialpub.store import sql
from socialpub.store.statements import gauges, standing

LATE_MS = 60_000  # by so much a post is overdue, and not only on its way
SOON_MS = 3600 * 1000  # what is on its way may be looked at again within this time
SILENT_MS = 2 * int(instance.BEAT_SECONDS * 1000)  # a server that runs gives a sign of life at each beat
SHOWN = 10


class Server(TypedDict):
    """`seenAt`: its last sign of life in the database. `silent`: it runs, and that was too long ago."""

    running: bool
    seenAt: str | None
    silent: bool


class Next(TypedDict):
    id: str
    platform: str
    account: str
    dueAt: str


class Late(TypedDict):
    """`count`: at most `standing.MOST`."""

    count: int
    since: str | None


class Failing(TypedDict):
    """Posts that failed for one cause within a day; `newest`: the id of one of them."""

    platform: str
    account: str
    code: str
    rule: str | None
    count: int
    newest: str


class Worry(TypedDict):
    """An account that needs its owner."""

    id: str
    platform: str
    account: str
    status: str
    why: str | None
    endsAt: str | None


class Backlog(TypedDict):
    """What is still to be done: deliveries to webhooks, messages to people, jobs that are due, by kind."""

    deliveries: int
    notifications: int
    jobs: dict[str, int]


class Standing(TypedDict):
    """All of it. `ok`: nothing needs anybody; `problems`: what does, in words."""

    ok: bool
    problems: list[str]
    server: Server
    paused: PausedReason | None
    next: list[Next]
    overdue: Late
    publishing: int
    failing: list[Failing]
    unknown: int
    accounts: list[Worry]
    backlog: Backlog


def look(now_ms: int, *, running: bool) -> Standing:
    """Within a read. `running`: whether a server has the database."""
    late, since = sql.first(standing.LATE, (now_ms - LATE_MS,))
    seen = sql.value(standing.SEEN)
    found: Standing = {
        "ok": True,
        "problems": [],
        "server": {
            "running": running,
            "seenAt": iso(seen) if seen else None,
            "silent": bool(running and seen and now_ms - seen > SILENT_MS),
        },
        "paused": instance.paused(),
        "next": [_next(row) for row in sql.every(standing.NEXT, (now_ms, SHOWN))],
        "overdue": {"count": late, "since": iso(since)},
        "publishing": sql.value(standing.PUBLISHING, (now_ms + SOON_MS,)),
        "failing": [_failing(row) for row in sql.every(standing.FAILING, (now_ms - DAY_MS, SHOWN))],
        "unknown": sql.value(standing.UNKNOWN),
        "accounts": [_worry(row) for row in sql.every(standing.TROUBLED_ACCOUNTS, (SHOWN,))],
        "backlog": _backlog(now_ms),
    }
    found["problems"] = [finding.problem for finding in findings(found)]
    found["ok"] = not found["problems"]
    return found


def _next(row: Any) -> Next:
    id_, platform, account, due = row
    return {"id": id_, "platform": platform, "account": account, "dueAt": iso(due)}


def _failing(row: Any) -> Failing:
    platform, account, code, rule, count, newest, _ = row
    named = {"platform": platform, "account": account}
    return {**named, "code": code, "rule": rule or None, "count": count, "newest": newest}  # type: ignore[typeddict-item]


def _worry(row: Any) -> Worry:
    id_, platform, account, status, attention, ends = row
    why = json.loads(attention)["message"] if attention else None
    return {"id": id_, "platform": platform, "account": account, "status": status, "why": why, "endsAt": iso(ends)}


def _backlog(now_ms: int) -> Backlog:
    jobs = {kind.name: int(sql.value(gauges.JOBS_DUE, (kind.name, now_ms))) for kind in KINDS}
    return {
        "deliveries": sql.value(gauges.DELIVERIES_PENDING),
        "notifications": sql.value(gauges.NOTIFICATIONS_PENDING),
        "jobs": {name: due for name, due in jobs.items() if due},
    }


# --- What needs somebody -----------------------------------------------------------------------------------------

SERVER, PUBLISHING, POSTS, ACCOUNTS = "server", "publishing", "posts", "accounts"


@dataclass(frozen=True)
class Finding:
    """One problem, for `status` and `doctor`. `about`: one of the four names above. `remedy`: what to do."""

    about: str
    problem: str
    remedy: str


def findings(found: Standing) -> list[Finding]:
    """Everything that needs somebody."""
    return [*_of_the_server(found), *_of_posts(found), *_of_accounts(found)]


def _of_the_server(found: Standing) -> Iterator[Finding]:
    if not found["server"]["running"]:
        yield Finding(SERVER, "No server runs on this database: nothing is published.", "Start it: socialpub serve")
    elif found["server"]["silent"]:
        seen = found["server"]["seenAt"]
        yield Finding(SERVER, f"The server has given no sign of life since {seen}.", "Look at its log, and restart it.")
    if found["paused"]:
        command = instance.resume_command(found["paused"])
        words = f"Publishing is paused ({found['paused']}): {command} shows what is overdue, and continues."
        yield Finding(PUBLISHING, words, f"When you have looked: {command}")


def _of_posts(found: Standing) -> Iterator[Finding]:
    late = found["overdue"]
    if late["count"]:
        words = f"{posts(late['count'])} overdue, the oldest since {late['since']}."
        yield Finding(POSTS, words, "The log says why they wait.")
    for cause in found["failing"]:
        why, where = cause["rule"] or cause["code"], f"{cause['platform']} {cause['account']}"
        words = f"{posts(cause['count'])} failed or rejected within a day on {where}: {why}"
        yield Finding(POSTS, f"{words} (such as {cause['newest']}).", "The post log says what to change.")
    if found["unknown"]:
        words = f"{posts(found['unknown'])} of unknown outcome."
        yield Finding(POSTS, words, "Look whether they are live, and settle them in the post log.")


def posts(count: int) -> str:
    return "1 post" if count == 1 else f"{count} posts"


def _of_accounts(found: Standing) -> Iterator[Finding]:
    for account in found["accounts"]:
        why = account["why"] or {
            "revoked": "its authorization has ended",
            "expiring": f"its authorization ends at {account['endsAt']}",
        }.get(account["status"], account["status"])
        words = f"The account {account['platform']} {account['account']} needs its owner: {why}."
        yield Finding(ACCOUNTS, words, "Connect it again in the dashboard.")
