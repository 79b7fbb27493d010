"""A database full of posts, made once for each size and schema and kept in a folder for temporary files.

The posts are unkind on purpose: words that only one profile, one status or the oldest posts have, templates that all
posts share, texts of one letter, filter values that no post has.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from socialpub import platforms
from socialpub.base.config import shipped
from socialpub.store import db

START_MS = 1_700_000_000_000
STEP_MS = 1_000
ORGANIZATION = "01900000-0000-7000-8000-00000000a001"
NEIGHBOUR = "01900000-0000-7000-8000-00000000b002"  # another organization, with a tenth of the posts
PROFILES = {  # of ORGANIZATION: what share of the posts each has
    "01900000-0000-7000-8000-0000000000a1": 0.50,
    "01900000-0000-7000-8000-0000000000a2": 0.49,
    "01900000-0000-7000-8000-0000000000a3": 0.01,
}
NEIGHBOURS_PROFILE = "01900000-0000-7000-8000-0000000000b1"
BIG, _, SMALL = PROFILES
STATUSES = {"published": 78, "failed": 8, "rejected": 6, "queued": 5, "canceled": 3}  # nothing is being published
CODES = {"platform_unavailable": 50, "platform_rejected": 40, "platform_auth_failed": 9.9, "internal_error": 0.1}
RARE = 20
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo yu za the ing tion".split()


def database(rows: int, folder: Path | None = None) -> Path:
    """The folder of a database with so many posts of ORGANIZATION; made when it is not there."""
    home = (folder or Path(tempfile.gettempdir()) / "socialpub-bench") / f"{rows}-{_version()}"
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        print(f"making {rows:,} posts in {home} …", flush=True)
        for old in home.iterdir():
            old.unlink()
        _make(home / "socialpub.db", rows)
        (home / "complete").touch()
    return home


def _version() -> str:
    """Changes whenever the schema or this module does."""
    sources = [*sorted(shipped("migrations").glob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]


def _make(path: Path, rows: int) -> None:
    """Rows first, indexes after: minutes become seconds."""
    db.migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA synchronous = off; PRAGMA cache_size = -400000; PRAGMA foreign_keys = off")
        indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE tbl_name = 'post' AND type = 'index'")
        kept = [(name, sql) for name, sql in indexes if sql]
        for name, _ in kept:
            connection.execute(f"DROP INDEX {name}")
        _furnish(connection)
        marks = ", ".join("?" * len(_COLUMNS))
        connection.executemany(f"INSERT INTO post ({', '.join(_COLUMNS)}) VALUES ({marks})", _posts(rows))
        for _, sql in kept:
            connection.execute(sql)
        connection.execute(
            "INSERT INTO post_search (rowid, fold, organization, profile, platform) SELECT number, text_fold, "
            "substr(organization, -3), substr(profile, -3), substr(platform, 1, 3) FROM post ORDER BY number"
        )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _furnish(connection: sqlite3.Connection) -> None:
    owners = [(ORGANIZATION, profile) for profile in PROFILES] + [(NEIGHBOUR, NEIGHBOURS_PROFILE)]
    connection.executemany(
        "INSERT INTO organization (id, name, tier, created_at) VALUES (?, 'Bench', 'self_host', 0)",
        [(ORGANIZATION,), (NEIGHBOUR,)],
    )
    connection.executemany(
        "INSERT INTO profile (id, organization, name, slug, created_at, updated_at) VALUES (?, ?, '', ?, 0, 0)",
        [(profile, organization, profile) for organization, profile in owners],
    )
    connection.executemany(
        "INSERT INTO account (id, organization, profile, platform, platform_account_id, status, extra, created_at,"
        " updated_at) VALUES (?, ?, ?, ?, 'x', 'active', '{}', 0, 0)",
        [
            (_account(profile, platform), organization, profile, platform)
            for (organization, profile), platform in itertools.product(owners, platforms.PLATFORMS)
        ],
    )


_COLUMNS = (
    "id organization profile account platform batch position status text text_fold media options error error_code "
    "warnings attempts tries created_at updated_at"
).split()


def _account(profile: str, platform: str) -> str:
    return f"{profile[:24]}{platform[:6]:0>10}{profile[-2:]}"


def _posts(rows: int) -> Iterator[tuple[object, ...]]:
    dice = random.Random(7)
    sentences = _sentences(dice)
    names = list(platforms.PLATFORMS)
    for number in range(rows + rows // 10):
        foreign = number % 11 == 10
        profile = NEIGHBOURS_PROFILE if foreign else dice.choices(list(PROFILES), list(PROFILES.values()))[0]
        platform, at = names[dice.randrange(len(names))], START_MS + number * STEP_MS
        status = dice.choices(list(STATUSES), list(STATUSES.values()))[0]
        code = dice.choices(list(CODES), list(CODES.values()))[0] if status in ("failed", "rejected") else None
        text = _text(dice, sentences, number, rows, profile, status)
        error = f'{{"code":"{code}","message":"It did not work.","docUrl":"http://localhost/docs"}}' if code else None
        yield (
            _id(at, number),
            NEIGHBOUR if foreign else ORGANIZATION,
            profile,
            _account(profile, platform),
            platform,
            _id(at, number // 8 * 8),
            number % 8,
            status,
            text,
            text.casefold(),
            "[]",
            "{}",
            error,
            code,
            "[]",
            1,
            1,
            at,
            at,
        )


def _id(at_ms: int, number: int) -> str:
    """A UUIDv7; the post's and (of the first in it) the batch's."""
    return f"{at_ms >> 16:08x}-{at_ms & 0xFFFF:04x}-7000-8000-{number * 0x9E3779B1 & 0xFFFFFFFFFFFF:012x}"


def _sentences(dice: random.Random) -> list[str]:
    words = ["".join(dice.choices(_SYLLABLES, k=dice.randint(2, 4))) for _ in range(4000)]
    weights = [1 / (place + 3) for place in range(len(words))]
    return [" ".join(dice.choices(words, weights, k=dice.randint(4, 12))) for _ in range(20_000)]


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
