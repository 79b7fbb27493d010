"""Server status for the operator, across organizations, with the problems to solve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from socialpub.base.config import Settings
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain.background.job_kinds import JOB_KINDS
from socialpub.domain.schemas.health import PausedReason
from socialpub.domain.server import instance
from socialpub.store.engine import sql
from socialpub.store.queries import gauges, server_status

LATE_MS = 60_000  # a post this late counts as overdue
SOON_MS = 3600 * 1000  # a post being published has its next lookup within this time
SILENT_MS = 2 * int(instance.GENERATION_SECONDS * 1000)  # a running server records at least every other heartbeat
SHOWN_MAX = 10


class ServerLiveness(TypedDict):
    """Liveness of the server. `seenAt`: last heartbeat. `silent`: too long ago.

    `moved`: handed over to another place, where it runs from now on.
    """

    running: bool
    moved: bool
    seenAt: str | None
    silent: bool


class NextDuePost(TypedDict):
    id: str
    platform: str
    account: str
    dueAt: str


class OverdueCount(TypedDict):
    """Overdue posts, counted up to a maximum."""

    count: int
    since: str | None


class FailureSummary(TypedDict):
    """Posts that failed for one cause within a day. `newest`: id of the newest one."""

    platform: str
    account: str
    code: str
    rule: str | None
    count: int
    newest: str


class AccountProblemRow(TypedDict):
    """Account with a problem that its owner has to solve."""

    id: str
    platform: str
    account: str
    status: str
    why: str | None
    endsAt: str | None


class WorkBacklog(TypedDict):
    """Pending webhook deliveries, pending notifications, and due jobs by kind."""

    deliveries: int
    notifications: int
    jobs: dict[str, int]


class ServerStatus(TypedDict):
    """Status of the server. `problems`: sentences for the operator; `ok`: there are none."""

    ok: bool
    problems: list[str]
    server: ServerLiveness
    paused: PausedReason | None
    next: list[NextDuePost]
    overdue: OverdueCount
    publishing: int
    failing: list[FailureSummary]
    unknown: int
    accounts: list[AccountProblemRow]
    backlog: WorkBacklog


def load_status(settings: Settings, now_ms: int, *, running: bool) -> ServerStatus:
    """Load the status. Call within a read. `running`: whether a server process is alive."""
    late, since = sql.fetch_one(server_status.COUNT_OVERDUE, (now_ms - LATE_MS,))
    seen, paused = sql.fetch_value(server_status.FIND_LAST_SEEN), instance.get_pause_reason()
    status: ServerStatus = {
        "ok": True,
        "problems": [],
        "server": {
            "running": running,
            "moved": not running and instance.is_handed_over(settings),
            "seenAt": format_iso(seen) if seen else None,
            # While the clock is in doubt, heartbeats are recorded without a time.
            "silent": bool(running and seen and paused != instance.CLOCK and now_ms - seen > SILENT_MS),
        },
        "paused": paused,
        "next": [_build_next(row) for row in sql.fetch_all(server_status.FIND_NEXT_DUE, (now_ms, SHOWN_MAX))],
        "overdue": {"count": late, "since": format_iso(since)},
        "publishing": sql.fetch_value(server_status.COUNT_PUBLISHING, (now_ms + SOON_MS,)),
        "failing": [
            _build_failure(row) for row in sql.fetch_all(server_status.FIND_FAILURES, (now_ms - DAY_MS, SHOWN_MAX))
        ],
        "unknown": sql.fetch_value(server_status.COUNT_UNKNOWN_OUTCOMES),
        "accounts": [
            _build_account_problem(row) for row in sql.fetch_all(server_status.FIND_PROBLEM_ACCOUNTS, (SHOWN_MAX,))
        ],
        "backlog": _load_backlog(now_ms),
    }
    status["problems"] = [finding.problem for finding in list_findings(status)]
    status["ok"] = not status["problems"]
    return status


def _build_next(row: Any) -> NextDuePost:
    id_, platform, account, due = row
    return {"id": id_, "platform": platform, "account": account, "dueAt": format_iso(due)}


def _build_failure(row: Any) -> FailureSummary:
    platform, account, code, rule, count, newest, _ = row
    named = {"platform": platform, "account": account}
    return {**named, "code": code, "rule": rule or None, "count": count, "newest": newest}  # type: ignore[typeddict-item]


def _build_account_problem(row: Any) -> AccountProblemRow:
    id_, platform, account, status, attention, ends = row
    why = json.loads(attention)["message"] if attention else None
    return {
        "id": id_,
        "platform": platform,
        "account": account,
        "status": status,
        "why": why,
        "endsAt": format_iso(ends),
    }


def _load_backlog(now_ms: int) -> WorkBacklog:
    jobs = {kind.name: int(sql.fetch_value(gauges.COUNT_DUE_JOBS, (kind.name, now_ms))) for kind in JOB_KINDS}
    return {
        "deliveries": sql.fetch_value(gauges.COUNT_PENDING_DELIVERIES),
        "notifications": sql.fetch_value(gauges.COUNT_PENDING_NOTIFICATIONS),
        "jobs": {name: due for name, due in jobs.items() if due},
    }


# --- Findings ----------------------------------------------------------------------------------------------------

SERVER, PUBLISHING, POSTS, ACCOUNTS = "server", "publishing", "posts", "accounts"


@dataclass(frozen=True)
class StatusFinding:
    """Problem, for `status` and `doctor`. `about`: one of the four names above."""

    about: str
    problem: str
    remedy: str


def list_findings(status: ServerStatus) -> list[StatusFinding]:
    """List the problems that a person has to solve."""
    return [*_list_server_findings(status), *_list_post_findings(status), *_list_account_findings(status)]


def _list_server_findings(status: ServerStatus) -> Iterator[StatusFinding]:
    if status["server"]["moved"]:
        yield StatusFinding(
            SERVER,
            "This database was handed over by `socialpub move`: no server starts on it here.",
            "Start it at its new place. If it is to stay here, and was not started there: socialpub move --back",
        )
    elif not status["server"]["running"]:
        yield StatusFinding(
            SERVER, "No server runs on this database: nothing is published.", "Start it: socialpub serve"
        )
    elif status["server"]["silent"]:
        seen = status["server"]["seenAt"]
        yield StatusFinding(
            SERVER, f"The server has not recorded a heartbeat since {seen}.", "Check its log, then restart it."
        )
    if status["paused"]:
        command = instance.get_resume_command(status["paused"])
        text = f"Publishing is paused ({status['paused']}). Run {command} to list the overdue posts and continue."
        yield StatusFinding(PUBLISHING, text, f"Run: {command}")


def _list_post_findings(status: ServerStatus) -> Iterator[StatusFinding]:
    late = status["overdue"]
    if late["count"]:
        text = f"{format_posts(late['count'])} overdue, the oldest since {late['since']}."
        yield StatusFinding(POSTS, text, "See the server's log for the reason.")
    for cause in status["failing"]:
        why, where = cause["rule"] or cause["code"], f"{cause['platform']} {cause['account']}"
        text = f"{format_posts(cause['count'])} failed or rejected within a day on {where}: {why}"
        yield StatusFinding(POSTS, f"{text} (for example {cause['newest']}).", "See the post log for what to change.")
    if status["unknown"]:
        text = f"{format_posts(status['unknown'])} with an unknown outcome."
        yield StatusFinding(POSTS, text, "Check whether they are live, then settle them in the post log.")


def format_posts(count: int) -> str:
    return "1 post" if count == 1 else f"{count} posts"


def _list_account_findings(status: ServerStatus) -> Iterator[StatusFinding]:
    for account in status["accounts"]:
        why = account["why"] or {
            "revoked": "its access has expired or was revoked",
            "expiring": f"its access expires at {account['endsAt']}",
        }.get(account["status"], account["status"])
        text = f"The account {account['platform']} {account['account']} needs attention: {why}."
        yield StatusFinding(ACCOUNTS, text, "Reconnect it in the dashboard.")
