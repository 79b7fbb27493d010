"""How things stand, for the operator: what is due, late and failing over all organizations, and what needs somebody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain.background.job_kinds import JOB_KINDS
from socialpub.domain.schemas.health import PausedReason
from socialpub.domain.server import instance
from socialpub.store.engine import sql
from socialpub.store.queries import gauges, server_status

LATE_MS = 60_000  # by so much a post is overdue, and not only on its way
SOON_MS = 3600 * 1000  # what is on its way may be looked at again within this time
SILENT_MS = 2 * int(instance.GENERATION_SECONDS * 1000)  # a server that runs gives a sign of life at each beat
SHOWN_MAX = 10


class ServerLiveness(TypedDict):
    """`seenAt`: its last sign of life in the database. `silent`: it runs, and that was too long ago."""

    running: bool
    seenAt: str | None
    silent: bool


class NextDuePost(TypedDict):
    id: str
    platform: str
    account: str
    dueAt: str


class OverdueCount(TypedDict):
    """`count`: at most `server_status.MOST`."""

    count: int
    since: str | None


class FailureSummary(TypedDict):
    """Posts that failed for one cause within a day; `newest`: the id of one of them."""

    platform: str
    account: str
    code: str
    rule: str | None
    count: int
    newest: str


class AccountProblemRow(TypedDict):
    """An account that needs its owner."""

    id: str
    platform: str
    account: str
    status: str
    why: str | None
    endsAt: str | None


class WorkBacklog(TypedDict):
    """What is still to be done: deliveries to webhooks, messages to people, jobs that are due, by kind."""

    deliveries: int
    notifications: int
    jobs: dict[str, int]


class ServerStatus(TypedDict):
    """All of it. `ok`: nothing needs anybody; `problems`: what does, in words."""

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


def load_status(now_ms: int, *, running: bool) -> ServerStatus:
    """Within a read. `running`: whether a server has the database."""
    late, since = sql.fetch_one(server_status.COUNT_OVERDUE, (now_ms - LATE_MS,))
    seen = sql.fetch_value(server_status.FIND_LAST_SEEN)
    found: ServerStatus = {
        "ok": True,
        "problems": [],
        "server": {
            "running": running,
            "seenAt": format_iso(seen) if seen else None,
            "silent": bool(running and seen and now_ms - seen > SILENT_MS),
        },
        "paused": instance.get_pause_reason(),
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
    found["problems"] = [finding.problem for finding in list_findings(found)]
    found["ok"] = not found["problems"]
    return found


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


# --- What needs somebody -----------------------------------------------------------------------------------------

SERVER, PUBLISHING, POSTS, ACCOUNTS = "server", "publishing", "posts", "accounts"


@dataclass(frozen=True)
class StatusFinding:
    """One problem, for `status` and `doctor`. `about`: one of the four names above. `remedy`: what to do."""

    about: str
    problem: str
    remedy: str


def list_findings(found: ServerStatus) -> list[StatusFinding]:
    """Everything that needs somebody."""
    return [*_list_server_findings(found), *_list_post_findings(found), *_list_account_findings(found)]


def _list_server_findings(found: ServerStatus) -> Iterator[StatusFinding]:
    if not found["server"]["running"]:
        yield StatusFinding(
            SERVER, "No server runs on this database: nothing is published.", "Start it: socialpub serve"
        )
    elif found["server"]["silent"]:
        seen = found["server"]["seenAt"]
        yield StatusFinding(
            SERVER, f"The server has given no sign of life since {seen}.", "Look at its log, and restart it."
        )
    if found["paused"]:
        command = instance.get_resume_command(found["paused"])
        words = f"Publishing is paused ({found['paused']}): {command} shows what is overdue, and continues."
        yield StatusFinding(PUBLISHING, words, f"When you have looked: {command}")


def _list_post_findings(found: ServerStatus) -> Iterator[StatusFinding]:
    late = found["overdue"]
    if late["count"]:
        words = f"{format_posts(late['count'])} overdue, the oldest since {late['since']}."
        yield StatusFinding(POSTS, words, "The log says why they wait.")
    for cause in found["failing"]:
        why, where = cause["rule"] or cause["code"], f"{cause['platform']} {cause['account']}"
        words = f"{format_posts(cause['count'])} failed or rejected within a day on {where}: {why}"
        yield StatusFinding(POSTS, f"{words} (such as {cause['newest']}).", "The post log says what to change.")
    if found["unknown"]:
        words = f"{format_posts(found['unknown'])} of unknown outcome."
        yield StatusFinding(POSTS, words, "Look whether they are live, and settle them in the post log.")


def format_posts(count: int) -> str:
    return "1 post" if count == 1 else f"{count} posts"


def _list_account_findings(found: ServerStatus) -> Iterator[StatusFinding]:
    for account in found["accounts"]:
        why = account["why"] or {
            "revoked": "its authorization has ended",
            "expiring": f"its authorization ends at {account['endsAt']}",
        }.get(account["status"], account["status"])
        words = f"The account {account['platform']} {account['account']} needs its owner: {why}."
        yield StatusFinding(ACCOUNTS, words, "Connect it again in the dashboard.")
