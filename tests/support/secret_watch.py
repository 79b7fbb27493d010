"""Leak detector: secrets of every test server, searched in logs, answers and database.

It runs from a server's start to its end. Secrets are all values that the server seals (tokens, keys, login verifiers),
app secrets, API keys, and all credentials that the simulator issues. None may appear in a log line, in an answer, or in
plain text in the database, which backups copy.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from socialpub.base.security.crypto import Vault
from socialpub.simulator.state import SimulatorState

SEALED = ("access", "refresh", "key", "dpopKey", "clientKey", "verifier")  # what of a sealed value is secret
SHORTEST = 8  # of what counts as a secret
OPENED = ("idempotency",)  # sealed so that a repeat of the request gets it again: its owner is meant to see it
# A sign that is looked for first, in a fraction of the time, and the whole.
GIVEN = {
    "lab-": re.compile(r"lab-(?:access|refresh)-[\w-]{20,}"),  # by every authorization server of the simulator
    "eyJ": re.compile(r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"),  # a session of Bluesky
}
CODE = "lab-code-", re.compile(r"lab-code-[\w-]{20,}")  # which the browser brings, and may get back


class WatchedVault(Vault):
    """A vault that tells what it seals."""

    def __init__(self, vault: Vault, watch: SecretWatch) -> None:
        self.__dict__.update(vault.__dict__)
        self._watch = watch

    def seal(self, secret: bytes, place: tuple[str, str, str]) -> str:
        if place[0] not in OPENED:
            self._watch.secrets.update(_secrets(_parse_secret(secret)))
        return super().seal(secret, place)


class LogRecorder(logging.Handler):
    """Keeps every line, formatted as a handler would write it, with tracebacks."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        # As `socialpub serve` has it: of others only warnings (httpx would tell whole addresses).
        if record.name.startswith("socialpub") or record.levelno >= logging.WARNING:
            self._lines.append(self.format(record))


SHOWN_ONCE = re.compile(r'"signingSecret":"[^"]*"')
"""What only the answer to the request that made it may hold."""


SHOWN_IN_PAGE = re.compile(r'id="copy-secret"><code>[^<]*<')
"""The same on a page: the one that is asked for with what the answer to the form has left in a cookie, and the one that
sets up an app for codes, which has to be told the secret."""


def _without_shown_once(response: httpx.Response) -> str:
    if response.request.url.path == "/settings/totp":
        return SHOWN_IN_PAGE.sub("", response.text)
    if response.request.method == "POST":
        return SHOWN_ONCE.sub("", response.text)
    if "socialpub_notice=" in response.request.headers.get("Cookie", ""):
        return SHOWN_IN_PAGE.sub("", response.text)
    return response.text


@dataclass
class SecretWatch:
    """One server's secrets, log and answers, over all its restarts. `leaks` says what stands where it must not."""

    lab: SimulatorState
    secrets: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    _others: set[str] = field(init=False)  # the accounts of tests before this one: thousands, in the end

    def __post_init__(self) -> None:
        self._others = {account.did for account in _accounts(self.lab)}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Every line of the log is heard, as far as `socialpub serve` writes them."""
        root, ours, listener = logging.getLogger(), logging.getLogger("socialpub"), LogRecorder(self.lines)
        before = ours.level
        root.addHandler(listener)
        ours.setLevel(logging.INFO)
        yield
        ours.setLevel(before)
        root.removeHandler(listener)

    def hear(self, response: httpx.Response) -> None:
        """An answer of the server, when it is text."""
        if response.headers.get("Content-Type", "").startswith(("application/json", "text/")):
            self.answers.append(_without_shown_once(response))

    def leaks(self, home: Path, *, is_open: bool = False) -> list[str]:
        """Each secret in the clear, as the place and its beginning.

        `is_open`: the server still runs, so the bytes of its files are left alone: its process would lose its locks on
        what was opened and closed.
        """
        places = {"log": self.lines, "answer": self.answers, **_database(home, is_open)}
        wanted = self.secrets | self._passwords()
        # Once for all places, in a fraction of the time; which one it is matters only where something was found.
        others = [text for place, texts in places.items() if place != "answer" for text in texts]
        if not any((*_find_leaks("answer", self.answers, wanted), *_find_leaks("all others", others, wanted))):
            return []
        found = [(place, secret) for place, texts in places.items() for secret in _find_leaks(place, texts, wanted)]
        return [f"{place}: {secret[:16]}…" for place, secret in found]

    def _passwords(self) -> set[str]:
        ours = [account for account in _accounts(self.lab) if account.did not in self._others]
        given = {secret for account in ours for secret in account.app_passwords.values()}
        return {secret for secret in given if len(secret) >= SHORTEST}


def _accounts(lab: SimulatorState) -> Iterator[Any]:
    """The accounts of the fake Bluesky, in the order of their making."""
    fake: Any = lab.fakes.get("bluesky")
    return iter(fake.accounts if fake else ())


def _find_leaks(place: str, texts: Iterable[str], wanted: set[str]) -> Iterator[str]:
    text = "\0".join(texts)
    if not text:
        return
    yield from (secret for secret in wanted if secret in text)
    yield from (match[0] for sign, given in GIVEN.items() if sign in text for match in given.finditer(text))
    sign, code = CODE
    if place != "answer" and sign in text:
        yield from (match[0] for match in code.finditer(text))


def _parse_secret(secret: bytes) -> Any:
    text = secret.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except ValueError:
        return {"key": text}
    return found if isinstance(found, dict | list) else {"key": text}


def _secrets(value: Any) -> Iterator[str]:
    """What of a sealed value is secret, wherever it stands in it."""
    for name, item in value.items() if isinstance(value, dict) else ():
        if name in SEALED and isinstance(item, str) and len(item) >= SHORTEST:
            yield item
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _secrets(inner)


def _database(home: Path, is_open: bool) -> dict[str, list[str]]:
    """The text of every row, and every byte of the files: also what is not checkpointed yet."""
    files = [] if is_open else [path for path in home.glob("socialpub.db*") if path.is_file()]
    found = {path.name: [_without_zeros(path.read_bytes())] for path in files}
    with contextlib.suppress(sqlite3.DatabaseError):  # a test may have damaged it
        found |= {f"table {name}": list(texts) for name, texts in _tables(home / "socialpub.db")}
    return found


def _without_zeros(content: bytes) -> str:
    """Without the room that nothing stands in, which is most of a young database: no secret has a zero in it."""
    return content.translate(None, b"\0").decode("latin-1")


def _tables(path: Path) -> Iterator[tuple[str, Iterable[str]]]:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '*_search*'"
        for (name,) in connection.execute(names).fetchall():
            rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
            yield name, (value for row in rows for value in row if isinstance(value, str))
