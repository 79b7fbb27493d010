"""Invariant checker of all soaks over ledger, client journal and database.

It reports every broken invariant with its rows.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from socialpub.domain.publishing.intents import hash_remote_id
from socialpub.store.queries.id_columns import select_column
from tests.support.soak.post_contents import make_comment
from tests.support.soak.soak_world import SoakWorld

TERMINAL = ("published", "failed", "rejected", "canceled")
UNKNOWN = "publish.outcome_unknown"
OF_CONTAINERS = ("instagram", "threads")  # which may publish one without saying what it has become
_POST = select_column("attempt", "post", "a")


@dataclass
class AcknowledgedText:
    """What the server acknowledged about one text: its post, what it promised, and every answer to its key."""

    text: str
    platform: str
    post: str | None = None
    not_before: int | None = None  # the newest acknowledged time, milliseconds
    rescheduled: int = 0
    canceled: bool = False
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    file: str | None = None  # the hash of the one that no other post has


@dataclass
class ClientJournal:
    """The client's own memory: what was acknowledged, by text (each text is sent once)."""

    said: dict[str, AcknowledgedText] = field(default_factory=dict)


@dataclass
class InvariantReport:
    posts: int = 0
    lost: list[Any] = field(default_factory=list)
    doubled: list[Any] = field(default_factory=list)
    integrity: list[Any] = field(default_factory=list)
    broken: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    unknown: int = 0
    unknown_live: int = 0
    unknown_of: Counter[tuple[str, str]] = field(default_factory=Counter)  # by platform and kind of post
    comments: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    by_platform: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def whole(self) -> bool:
        return not (self.lost or self.doubled or self.integrity or any(self.broken.values()))

    def lines(self) -> list[str]:
        head = f"posts {self.posts}  lost {len(self.lost)}  doubled {len(self.doubled)}  "
        head += f"integrity errors {len(self.integrity)}  unknown {self.unknown} ({self.unknown_live} live)"
        lines = [head + (f"  comments {self.comments}" if self.comments else "")]
        for platform, counts in sorted(self.by_platform.items()):
            shown = "  ".join(f"{name} {number}" for name, number in sorted(counts.items()) if number)
            lines.append(f"  {platform:<8} {shown}")
        for name, rows in self.broken.items():
            lines.append(f"  BROKEN {name}: {len(rows)}, first {rows[0]}")
        for name in ("lost", "doubled", "integrity"):
            if rows := getattr(self, name):
                lines.append(f"  BROKEN {name}: first {rows[0]}")
        return lines


def check_invariants(world: SoakWorld, journal: ClientJournal, canaries: tuple[str, ...] = ()) -> InvariantReport:
    """Everything that must hold once no post is under way."""
    report = InvariantReport()
    posts = world.rows(
        "SELECT p.*, i.remote FROM post p LEFT JOIN intent i"
        " ON i.post = p.number AND i.step = 'publish' AND i.outcome = 'ok'"
    )
    ledger = _by_text(world, journal)
    report.posts = len(posts)
    _check_posts(report, posts, ledger, journal)
    _check_comments(report, posts, ledger)
    _check_journal(report, {row["id"]: row for row in posts}, ledger, journal)
    _check_events(report, world, posts, journal)
    _check_store(report, world, posts)
    _check_secrets(report, world, (world.key, "canary-token-", *world.secrets, *canaries))
    return report


def _by_text(world: SoakWorld, journal: ClientJournal) -> dict[str, list[dict[str, Any]]]:
    """What is public, by the text it was sent with; where the platform takes none, by the text of its file's post."""
    of_file = {said.file: said.text for said in journal.said.values() if said.file}
    ledger: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in world.lab.ledger():
        file = entry["media"][0]["sha256"] if entry["media"] else None
        ledger[entry["text"] or of_file.get(file)].append(entry)
    return ledger


def _check_posts(report: InvariantReport, posts: list[dict[str, Any]], ledger: Any, journal: ClientJournal) -> None:
    for row in posts:
        entries, name = ledger.get(row["text"], []), row["status"]
        rule = json.loads(row["error"]).get("rule") if row["error"] else None
        unknown = name == "failed" and rule == UNKNOWN
        report.statuses[name] += 1
        report.by_platform[row["platform"]]["unknown" if unknown else name] += 1
        here = (row["id"], row["platform"], name, rule, row["text"], [entry["remote_id"] for entry in entries])
        if len(entries) > 1:
            report.doubled.append(here)  # I1
        if name not in TERMINAL:
            report.lost.append(here)  # I2
        if unknown:
            report.unknown += 1
            report.unknown_live += bool(entries)
            report.by_platform[row["platform"]]["unknown and live"] += bool(entries)
            report.unknown_of[row["platform"], _kind(row)] += 1
        elif name == "published":
            if not _names(row, entries):
                report.broken["I3 published without its post"].append((*here, row["remote"], row["url"]))
        elif entries:
            report.broken["I3 known not to be there, and it is"].append(here)
    known = {row["text"] for row in posts} | {row["first_comment"] for row in posts if row["first_comment"]}
    for text in ledger.keys() - known:
        report.broken["I3 a post of nobody"].append(text)


def _kind(row: dict[str, Any]) -> str:
    """What a post is made of: words, image or video."""
    return next((str(item["kind"]) for item in json.loads(row["media"])), "words")


def _names(row: dict[str, Any], entries: list[dict[str, Any]]) -> bool:
    """Whether the row's id, uri and address are those of the one entry.

    An address may have stayed unknown, and of a container that was published without an answer the post's id too.
    """
    if len(entries) != 1:
        return False
    id, url = entries[0]["remote_id"], entries[0]["url"]
    if row["platform"] in OF_CONTAINERS and row["remote"] not in (None, hash_remote_id(id)):
        return row["platform_uri"] is row["url"] is None
    uris = (id, row["url"], f"tiktok:publish:{id}")
    return row["remote"] == hash_remote_id(id) and row["platform_uri"] in uris and (row["url"] or url) == url


def _check_comments(report: InvariantReport, posts: list[dict[str, Any]], ledger: Any) -> None:
    """One first comment at most; it is there when the row names it or says nothing else, and never without its post."""
    for row in (row for row in posts if row["first_comment"]):
        entries, published = ledger.get(make_comment(row["text"]), []), row["status"] == "published"
        failed = "first_comment_failed" in row["warnings"]
        here = (row["id"], row["platform"], row["status"], row["first_comment_uri"], row["warnings"], entries)
        report.comments += len(entries)
        if len(entries) > 1:
            report.doubled.append(here)  # I1
        elif [entry["remote_id"] for entry in entries] != [row["first_comment_uri"]] * (published and not failed):
            report.broken["I3 the first comment is not what is said of it"].append(here)


def _check_journal(report: InvariantReport, posts: Any, ledger: Any, journal: ClientJournal) -> None:
    for said in journal.said.values():
        if said.post is not None and said.post not in posts:
            report.lost.append((said.post, said.text, "acknowledged, and there is no such row"))  # I2
        entries = ledger.get(said.text, [])
        if said.canceled and (entries or posts[said.post]["status"] != "canceled"):
            report.broken["I4 canceled, and still posted"].append((said.post, entries))
        if said.not_before is not None and any(entry["at_ms"] < said.not_before for entry in entries):
            report.broken["I5 posted before its time"].append((said.post, said.not_before, entries))
        if len(set(said.answers)) > 1:
            report.broken["I7 two answers to one key"].append((said.text, said.answers))


def _check_events(
    report: InvariantReport, world: SoakWorld, posts: list[dict[str, Any]], journal: ClientJournal
) -> None:
    """I6: one event for each transition."""
    told: dict[str, Counter[str]] = defaultdict(Counter)
    for event in world.happened():
        if event.post is not None:
            told[event.post][event.type] += 1
    refused = f"SELECT {_POST} AS post, count(*) AS n FROM attempt a WHERE succeeded = 0 GROUP BY a.post"
    failed = {row["post"]: row["n"] for row in world.rows(refused)}
    moved = {said.post: said.rescheduled for said in journal.said.values()}
    for row in posts:
        events, name = told[row["id"]], row["status"]
        wanted = {f"post.{status}": int(name == status) for status in ("published", "rejected", "canceled")}
        wanted |= {"post.validated": 1, "post.queued": int(row["scheduled_at"] is not None)}
        wanted["post.failed"] = failed.get(row["id"], 0) - (name == "rejected")
        overdue = row["error"] and json.loads(row["error"]).get("rule") == "schedule.overdue"
        if overdue:
            wanted["post.failed"] = events["post.failed"] or 1
        wrong = {kind: (events[kind], number) for kind, number in wanted.items() if events[kind] != number}
        if events["post.rescheduled"] < moved.get(row["id"], 0):
            wrong["post.rescheduled"] = (events["post.rescheduled"], moved[row["id"]])
        if wrong:
            report.broken["I6 events (are, should be)"].append((row["id"], name, wrong))


def _check_store(report: InvariantReport, world: SoakWorld, posts: list[dict[str, Any]]) -> None:
    report.integrity += database_problems(world.database)  # I8
    for row in world.rows("SELECT id, post FROM intent WHERE outcome IS NULL"):
        report.broken["I8 an intent is still open"].append(row)
    for row in world.rows("SELECT j.key FROM job j JOIN post p ON p.id = j.key"):
        report.broken["I8 a job of a post that has ended"].append(row)
    for row in world.rows("SELECT id FROM idempotency WHERE status IS NULL"):
        report.broken["I7 an answer was never completed"].append(row)
    counted = sum(row["posts"] for row in world.rows("SELECT posts FROM usage"))
    if counted != len(posts):
        report.broken["I10 quota"].append((counted, len(posts)))


def database_problems(database: Path) -> list[Any]:
    """What integrity_check and foreign_key_check say; empty when the file is whole."""
    with contextlib.closing(sqlite3.connect(database, timeout=10)) as connection:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        keys = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [line for line in found if line != "ok"] + keys


def _check_secrets(report: InvariantReport, world: SoakWorld, secrets: tuple[str, ...]) -> None:
    """I9: no secret in the clear, in the database, its log, ours, or any other file beside them."""
    ours = (path for path in world.folder.rglob("*") if path.is_file() and path != world.lab.ledger_file)
    for path in ours:
        content = path.read_bytes()
        for secret in secrets:
            if secret.encode() in content:
                report.broken["I9 a secret in the clear"].append((path.name, secret[:12]))
