"""Benchmark database: posts with their history, kept in a folder.

It is made once for each size and schema.

The posts are unkind on purpose: words that only one profile, one status or the oldest posts have, templates that all
posts share, texts of one letter, filter values that no post has. Beside each are the rows that the program writes when
it has done with it: its batch, an attempt, an intent, events; beside what is still to come, its job.

`python -m benchmarks.dataset ROWS` makes it, and says where.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from socialpub import platforms
from socialpub.base.json_codec import dumps
from socialpub.base.system.directories import find_shipped_directory
from socialpub.domain.publishing import intents
from socialpub.store import casefold, search
from socialpub.store import database as db
from socialpub.store.engine.id_fields import encode_id
from socialpub.store.engine.sqlite import make_peewee_database
from socialpub.store.queries import id_columns
from socialpub.store.queries.events import TYPE_NUMBERS
from socialpub.store.schema import migration

STEP_MS = 1_000  # between two posts; the newest is as old as the database
ORGANIZATION = "01900000-0000-7000-8000-00000000a001"
NEIGHBOUR = "01900000-0000-7000-8000-00000000b002"  # another organization, with a tenth of the posts
ORGANIZATIONS = (ORGANIZATION, NEIGHBOUR)  # in the order of their numbers
PROFILES = {  # of ORGANIZATION: what share of the posts each has
    "01900000-0000-7000-8000-0000000000a1": 0.50,
    "01900000-0000-7000-8000-0000000000a2": 0.49,
    "01900000-0000-7000-8000-0000000000a3": 0.01,
}
NEIGHBOURS_PROFILE = "01900000-0000-7000-8000-0000000000b1"
BIG, _, SMALL = PROFILES
STATUSES = {"published": 78, "failed": 8, "rejected": 6, "queued": 5, "canceled": 3}  # nothing is being published
CODES = {"platform_unavailable": 50, "platform_rejected": 40, "platform_auth_failed": 9.9, "internal_error": 0.1}
DUE_MS = 4_000_000_000_000  # what is queued is due in 2096
RARE = 20
POSTS_PER_FILE = 20  # one stored file for so many posts
POSTS_WITH_FILE = 10  # one of so many queued posts names a file
CHUNK = 10_000
KEPT_SECONDS = 86_400
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo yu za the ing tion".split()
Row = tuple[object, ...]


def database(rows: int, folder: Path | None = None) -> Path:
    """The folder of a database with so many posts of ORGANIZATION; made when it is not there.

    Nobody opens that one: a server would write to it. They copy it.
    """
    kept = folder or Path(tempfile.gettempdir()) / "socialpub-bench"
    home = kept / f"{rows}-{_version()}"
    if not (home / "complete").exists():
        _make_room(kept, home)
        print(f"making {rows:,} posts in {home} …", flush=True)
        began_at = time.time_ns() // 1_000_000 - total(rows) * STEP_MS
        _make(home / "socialpub.db", rows, began_at)
        (home / "complete").write_text(str(began_at))
    os.utime(home)
    return home


def _make_room(kept: Path, home: Path) -> None:
    """An empty folder; what nobody has used for a day goes, for these are gigabytes."""
    for old in kept.glob("*-*"):
        if old == home or time.time() - old.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(old)
    home.mkdir(parents=True)


def total(rows: int) -> int:
    """How many posts are in it, with the neighbour's."""
    return rows + rows // 10


def began_ms(home: Path) -> int:
    """When the oldest post was made."""
    return int((home / "complete").read_text())


def copy_database(home: Path, folder: Path) -> None:
    """Put a database of its own into a folder; on some file systems that takes no time."""
    subprocess.run(["cp", "--reflink=auto", "-p", home / "socialpub.db", folder / "socialpub.db"], check=True)


def make_by_checkout(checkout: Path, python: str, rows: int, folder: Path | None) -> Path:
    """The same, as the code of another checkout makes it; LookupError where it does not know how."""
    asked = [python, "-m", "benchmarks.dataset", str(rows), *(["--folder", str(folder)] if folder else [])]
    done = subprocess.run(asked, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        raise LookupError(f"{checkout} makes no database of {rows} posts; with --rows 0 all sides begin empty")
    return Path(done.stdout.splitlines()[-1])


def _version() -> str:
    """Changes whenever the schema or this module does."""
    sources = [*sorted(find_shipped_directory("migrations").glob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]


# --- The file ------------------------------------------------------------------------------------------------------


def _make(path: Path, rows: int, began_at: int) -> None:
    """Rows first, indexes after: an hour becomes minutes."""
    migration.migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = delete")
        connection.execute("PRAGMA journal_mode = off")
        connection.executescript("PRAGMA synchronous = off; PRAGMA cache_size = -400000; PRAGMA foreign_keys = off")
        names = ", ".join(f"'{name}'" for name in _COLUMNS)
        found = connection.execute(
            f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN ({names})"
        )
        kept = [(name, sql) for name, sql in found if sql]
        for name, _ in kept:
            connection.execute(f'DROP INDEX "{name}"')
        _furnish(connection)
        _insert_files(connection, rows, began_at)
        tables = {name: DatasetTable(connection, name, columns) for name, columns in _COLUMNS.items()}
        posts = _posts(rows, began_at)
        while chunk := list(itertools.islice(posts, CHUNK)):
            for name, table in tables.items():
                table.insert([row for post in chunk for row in post[name]])
        for _, sql in kept:
            connection.execute(sql)
        connection.commit()
    _file(path)


def _file(path: Path) -> None:
    """What a periodic task does behind the posts, in one go."""
    database = make_peewee_database(path)
    db.proxy.initialize(database)
    with database.connection_context(), database.atomic():
        while search.index_batch():
            pass


class DatasetTable:
    """A table of the newest schema, whose ids may be text, bytes, or the numbers of rows that are there already."""

    def __init__(self, connection: sqlite3.Connection, name: str, columns: str) -> None:
        self._connection, given = connection, columns.split()
        kinds = {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({name})")}
        self._bytes = [place for place, column in enumerate(given) if kinds[column] == "BLOB"]
        numbered = id_columns.NUMBER_COLUMNS.get(name, {})
        self._numbers = {
            place: dict[object, object](connection.execute(f"SELECT id, number FROM {numbered[column]}").fetchall())
            for place, column in enumerate(given)
            if column in numbered and column != "post"  # the posts are counted
        }
        self._sql = f"INSERT INTO {name} ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})"

    def insert(self, rows: Sequence[Row]) -> None:
        self._connection.executemany(self._sql, map(self._as_stored, rows))

    def _as_stored(self, row: Row) -> Row:
        values = list(row)
        for place in self._bytes:
            if isinstance(value := values[place], str):
                values[place] = encode_id(value)
        for place, numbers in self._numbers.items():
            values[place] = numbers[values[place]]
        return tuple(values)


def _furnish(connection: sqlite3.Connection) -> None:
    owners = [(ORGANIZATION, profile) for profile in PROFILES] + [(NEIGHBOUR, NEIGHBOURS_PROFILE)]
    organizations = DatasetTable(connection, "organization", "id name tier created_at")
    organizations.insert([(one, "Bench", "self_host", 0) for one in ORGANIZATIONS])
    profiles = DatasetTable(connection, "profile", "id organization name slug created_at updated_at")
    profiles.insert([(profile, organization, "", profile, 0, 0) for organization, profile in owners])
    accounts = DatasetTable(
        connection,
        "account",
        "id organization profile platform platform_account_id status extra created_at updated_at",
    )
    accounts.insert(
        [
            (account(profile, platform), organization, profile, platform, "x", "active", "{}", 0, 0)
            for (organization, profile), platform in itertools.product(owners, platforms.PLATFORMS)
        ]
    )


def find_file(number: int, rows: int) -> str:
    """The id of the file of a post with this number; the file 0 is of none."""
    return f"med_{number % max(1, rows // POSTS_PER_FILE) + 1:026d}"


UNUSED_FILE = f"med_{0:026d}"


def _insert_files(connection: sqlite3.Connection, rows: int, began_at: int) -> None:
    columns = "id organization content_type kind size_bytes sha256 alt_text created_at used_at"
    DatasetTable(connection, "media", columns).insert(
        [
            (
                f"med_{number:026d}",
                ORGANIZATION,
                "image/jpeg",
                "image",
                1000,
                f"{number:064x}",
                f"File {number}",
                at,
                at,
            )
            for number in range(max(1, rows // POSTS_PER_FILE) + 1)
            for at in [began_at + number * POSTS_PER_FILE * STEP_MS]
        ]
    )


# --- Rows ----------------------------------------------------------------------------------------------------------

_COLUMNS = {
    "batch": "id organization request_id created_at scheduled_at",
    "post": "number id organization profile account platform batch position status text text_fold media options "
    "scheduled_at published_at platform_uri platform_cid url error error_code warnings attempts tries draft_at "
    "draft_nonce created_at updated_at",
    "attempt": "id post number started_at finished_at succeeded error_code error_message platform_response",
    "intent": "post attempt account step number plan epoch intent_at sent_at sends looks answered outcome remote "
    "result settled_at",
    "event": "organization type post scheduled_at data created_at",
    "job": "key kind serial_group visible_at claims host owner",
}
_POST, _BATCH, _ATTEMPT = range(3)
_TAKES_MS = 120  # from accepting a post to its end
_REFUSED = "The account's server did not accept the post. It did not publish the post: Invalid Request"
_ANSWER = '{"status": 400, "body": {"error": "InvalidRequest", "message": "Invalid Request"}}'


def account(profile: str, platform: str) -> str:
    """The account that a profile has on a platform."""
    return f"{profile[:24]}{platform[:6].encode().hex()[:10]:0>10}{profile[-2:]}"


def _id(kind: int, at_ms: int, number: int) -> str:
    """A UUIDv7."""
    spread = number * 0x9E3779B1 & 0xFFFFFFFFFFFF
    return f"{at_ms >> 16:08x}-{at_ms & 0xFFFF:04x}-7{kind:03x}-8000-{spread:012x}"


def _posts(rows: int, began_at: int) -> Iterator[dict[str, list[Row]]]:
    """Of each post, the rows of each table."""
    dice = random.Random(7)
    sentences = _sentences(dice)
    platform_names = list(platforms.PLATFORMS)
    for number in range(total(rows)):
        foreign = number % 11 == 10
        profile = NEIGHBOURS_PROFILE if foreign else dice.choices(list(PROFILES), list(PROFILES.values()))[0]
        platform = dice.choice(platform_names)
        status = dice.choices(list(STATUSES), list(STATUSES.values()))[0]
        code = dice.choices(list(CODES), list(CODES.values()))[0] if status in ("failed", "rejected") else None
        text = _text(dice, sentences, number, rows, profile, status)
        organization = NEIGHBOUR if foreign else ORGANIZATION
        media = "[]"
        if status == "queued" and not foreign and number % POSTS_WITH_FILE == 0:
            media = f'[{{"kind": "image", "mediaId": "{find_file(number, rows)}"}}]'
        yield DatasetPost(
            organization, profile, platform, status, code, text, number, began_at + number * STEP_MS, media
        ).rows()


@dataclass
class DatasetPost:
    """One post, and everything that the program has written about it."""

    organization: str
    profile: str
    platform: str
    status: str
    code: str | None
    text: str
    number: int
    at: int
    media: str

    def __post_init__(self) -> None:
        at, number = self.at, self.number
        self.account = account(self.profile, self.platform)
        self.place = number + 1
        self.id, self.batch = _id(_POST, at, number), _id(_BATCH, at, number)
        self.request = f"req_{at:011x}{number:011x}"
        self.tried = self.status in ("published", "failed", "rejected")
        self.due = None if self.tried else DUE_MS + number * STEP_MS
        self.ended = at + _TAKES_MS if self.status != "queued" else at
        self.uri = self.cid = self.url = None
        if self.status == "published":
            self.uri = f"at://did:plc:{number:024d}/app.bsky.feed.post/{number:013d}"
            self.cid = f"bafyrei{number * 0x9E3779B97F4A7C15:052d}"[:59]
            self.url = f"https://{self.platform}.example/profile/{number:013d}/post"

    def rows(self) -> dict[str, list[Row]]:
        error = self._error() if self.code else None
        tried = int(self.tried)
        return {
            "batch": [(self.batch, self.organization, self.request, self.at, self.due)],
            "post": [self._post(error, tried)],
            "attempt": [self._attempt(error)] * tried,
            "intent": [self._intent()] * tried,
            "event": list(self._events()),
            "job": [self._job()] * (self.status == "queued"),
        }

    def _post(self, error: str | None, tried: int) -> Row:
        return (
            self.place, self.id, self.organization, self.profile, self.account, self.platform, self.batch, 0,
            self.status, self.text, casefold.fold_for_storage(self.text), self.media, "{}", self.due,
            self.ended if self.uri else None,
            self.uri, self.cid, self.url, error, self.code, "[]", tried, tried,
            self.at if tried else None, self.number * 0x9E3779B1 if tried else None, self.at, self.ended,
        )  # fmt: skip

    def _attempt(self, error: str | None) -> Row:
        told = (_REFUSED, _ANSWER) if error else (None, None)
        return (self._attempt_id, self.number + 1, 1, self.at, self.ended, int(error is None), self.code, *told)

    @property
    def _attempt_id(self) -> str:
        return _id(_ATTEMPT, self.at, self.number)

    def _intent(self) -> Row:
        plan = "" if self.uri else self._plan()
        return (
            self.number + 1, 1, self.account, "publish", 1, plan, 1,
            self.at, self.at, 1, 0, 0, "ok" if self.uri else "rejected",
            intents.hash_remote_id(self.uri) if self.uri else None,
            None, self.ended,
        )  # fmt: skip

    def _job(self) -> Row:
        return (self.id, "publish", self.account, self.due, 0, self.platform, self.organization)

    def _error(self) -> str:
        told = {
            "code": self.code,
            "message": _REFUSED,
            "rule": f"{self.platform}.record.invalid",
            "platform": self.platform,
            "platformVersion": "2026-08-20",
            "platformResponse": json.loads(_ANSWER),
            "remediation": "Read the server's response in `platformResponse`. An older server may have lower limits.",
            "docUrl": f"http://127.0.0.1:8080/docs/errors/{self.code}",
            "ruleUrl": f"http://127.0.0.1:8080/docs/rules/{self.platform}.record.invalid",
        }
        return dumps(told)

    def _plan(self) -> str:
        text = json.dumps(self.text, ensure_ascii=False)
        repo = f"did:plc:{self.number:024d}"
        return (
            f'{{"repo": "{repo}", "collection": "app.bsky.feed.post", "rkey": "{self.number:013d}", "record": '
            f'{{"$type": "app.bsky.feed.post", "text": {text}, "createdAt": "2026-01-01T00:00:00.000Z"}}}}'
        )

    def _events(self) -> Iterator[Row]:
        kinds = ("queued", "validated") if self.status == "queued" else ("validated", self.status)
        for place, kind in enumerate(kinds):
            at = self.at if place == 0 or self.status == "queued" else self.ended
            yield (
                ORGANIZATIONS.index(self.organization) + 1, TYPE_NUMBERS[f"post.{kind}"], self.place, self.due, None,
                at,
            )  # fmt: skip


def _sentences(dice: random.Random) -> list[str]:
    words = ["".join(dice.choices(_SYLLABLES, k=dice.randint(2, 4))) for _ in range(4000)]
    weights = list(itertools.accumulate(1 / (place + 3) for place in range(len(words))))
    return [" ".join(dice.choices(words, cum_weights=weights, k=dice.randint(4, 12))) for _ in range(20_000)]


FOOTER = "thank you for reading, more of this every week at https://example.com/news"


def _text(dice: random.Random, sentences: list[str], number: int, rows: int, profile: str, status: str) -> str:
    """About 130 characters."""
    text = f"{dice.choice(sentences)} {dice.choice(sentences)}."
    parts = [
        (number % 3 == 0, f"Release {number} is out: "),
        (number % 4 == 0, "Aaah "),
        (number % 7 == 0, "Привет, мир "),
        (profile == BIG, "onlybig "),
        (profile != BIG, "onlyothers "),
        (status == "failed", "brokenlink "),
        (number < rows // 20, "oldtimes "),
        (number % max(1, rows // RARE) == 1, "needle "),
        (number % 2 == 0, FOOTER),
    ]
    return text + " " + "".join(part for present, part in parts if present)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.dataset")
    options.add_argument("rows", type=int)
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    print(database(given.rows, given.folder))


if __name__ == "__main__":
    main()
