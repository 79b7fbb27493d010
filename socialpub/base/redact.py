"""What is written for people to read, in the log or beside a post: never a secret, and in the log one line for each.

`text` takes out what looks like a secret wherever it came from; `without` takes out secrets that are known, also in
the ways that they are written into addresses and headers; `value` does both to a whole JSON value.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import re
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterable
from typing import Any

from pythonjsonlogger import json as json_lines

HIDDEN = "[hidden]"
SHORTEST = 8  # what is shorter stands in too many words

_NAMES = (  # parameters that sign an address, or are as good as a password
    "x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|signature|sig|policy"
    "|key-pair-id|hmac|[a-z_]*token|appsecret_proof|client_secret|client_assertion|code_verifier|code|refresh|jwt"
    "|password|secret|api_key|apikey|access_key|oh|oe"
)
# (words, one of which stands in whatever it finds, in small letters; pattern; what is left in its place)
_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (("_live_", "_test_"), re.compile(r"\b([A-Za-z0-9]{1,32}_(?:live|test)_)[0-9A-Za-z]{20,}"), rf"\1{HIDDEN}"),  # keys
    (
        ("bearer", "dpop", "basic", "oauth"),
        re.compile(r"\b(Bearer|DPoP|Basic|OAuth)( +|%20|\+)[A-Za-z0-9._~+/%-]{16,}=*", re.IGNORECASE),
        rf"\1\2{HIDDEN}",
    ),
    (  # JSON web tokens; a run without a second part is matched too (and kept), or each "eyJ" in it would rescan it
        ("eyj",),
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}+(\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?)?"),
        lambda found: HIDDEN if found[1] else found[0],
    ),
    (("=",), re.compile(rf"([?&;](?:amp;)?(?:{_NAMES})=)[^&#;\s\"'<>\\]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (
        ("%3d",),
        re.compile(rf"((?:%3F|%26)(?:{_NAMES})%3D)(?:(?!%26|%23)[^&#;\s\"'<>\\])+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (("/setup/",), re.compile(r"(/setup/)[A-Za-z0-9_-]{8,}"), rf"\1{HIDDEN}"),
    (("/media/med_",), re.compile(r"(/media/med_[A-Za-z0-9]+/)[A-Za-z0-9_-]{8,}"), rf"\1{HIDDEN}"),
    (("://",), re.compile(r"(://)[^/\s@:\"'<>]+:[^/\s@\"'<>]+@"), rf"\1{HIDDEN}@"),  # name and password
)


_WORDS = tuple(word for words, _, _ in _PATTERNS for word in words)


def text(said: str) -> str:
    """Without what looks like a key, a bearer token, a signature of an address, a set-up link."""
    if not _may_hide(said):
        return said
    for _, pattern, instead in _PATTERNS:
        said = pattern.sub(instead, said)
    return said


def _may_hide(said: str) -> bool:
    """Whether a pattern may find something: few lines hold any of the words, and to look for these takes less."""
    if not said.isascii():
        return True  # other letters may count as these where case does not
    plain = said.lower()
    for word in _WORDS:  # noqa: SIM110 - a generator takes as long as all the words
        if word in plain:
            return True
    return False


def without(said: str, secrets: Iterable[str]) -> str:
    """Without these secrets, as they are and as they are encoded."""
    for secret in secrets:
        if len(secret) >= SHORTEST:
            for form in _forms(secret):
                said = said.replace(form, HIDDEN)
    return said


def value(raw: Any, secrets: Collection[str] = ()) -> Any:
    """A JSON value without secrets: by the names of its fields, and wherever one of `secrets` stands."""
    if isinstance(raw, dict):
        return {name: HIDDEN if _is_secret(name, item) else value(item, secrets) for name, item in raw.items()}
    if isinstance(raw, list):
        return [value(item, secrets) for item in raw]
    return text(without(raw, secrets)) if isinstance(raw, str) else raw


_SECRET_NAMES = ("token", "jwt", "password", "secret", "authorization", "cookie", "signature", "assertion")


def _is_secret(name: str, value: object) -> bool:
    return isinstance(value, str) and any(word in name.lower() for word in _SECRET_NAMES)


def content(raw: bytes, secrets: Iterable[str]) -> bytes:
    """Bytes without these secrets."""
    return without(raw.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")


@functools.lru_cache(256)
def _forms(secret: str) -> tuple[str, ...]:
    raw = secret.encode("utf-8", "surrogatepass")
    quoted = urllib.parse.quote(secret, safe="", errors="replace")
    forms = {secret, json.dumps(secret)[1:-1], quoted, quoted.lower(), urllib.parse.quote(quoted, safe=""), raw.hex()}
    for before in range(3):  # how many bytes of something else share its first letter
        core = base64.b64encode(b"\0" * before + raw).rstrip(b"=").decode()
        core = core[(0, 2, 3)[before] : -1]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return tuple(sorted((form for form in forms if len(form) >= SHORTEST), key=len, reverse=True))


# --- The log -----------------------------------------------------------------------------------------------------

# What moves, hides or ends a line: controls, separators, marks of direction, halves of characters.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_INDENT = "\n  | "


def one_line(said: str) -> str:
    """As one line of visible characters."""
    if said.isascii() and said.isprintable():
        return said
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), said)


class LogFormatter(logging.Formatter):
    """The one way into the log: a record is one line, its traceback the indented lines after it, neither with a
    secret. Nothing that anybody sends can look like another record.
    """

    _second, _shown = 0, ""
    _has_time: bool | None = None

    def usesTime(self) -> bool:
        if self._has_time is None:  # the format is the same for all lines
            self._has_time = super().usesTime()
        return self._has_time

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        second = int(record.created)
        if second != self._second:  # it is the same for all the lines of a second
            self._shown, self._second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)), second
        return f"{self._shown}.{int(record.msecs):03d}Z"

    def format(self, record: logging.LogRecord) -> str:
        said = super().format(record)
        if "\n" not in said:
            return one_line(text(said))
        return _INDENT.join(one_line(text(part)) for part in said.split("\n"))


class JsonLogFormatter(json_lines.JsonFormatter):
    """The same for programs: each record is an object on a line of its own.

    A record whose `names` say what its arguments are has each of them as a field too.
    """

    def __init__(self) -> None:
        super().__init__(json_ensure_ascii=False)
        self._clock = LogFormatter()

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        log_data |= {
            "time": self._clock.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        arguments = record.args if isinstance(record.args, tuple) else ()
        log_data |= dict(zip(getattr(record, "names", ()), arguments, strict=False))
        if "exc_info" in message_dict:
            log_data["exception"] = message_dict["exc_info"]

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return {name: text(value) if isinstance(value, str) else value for name, value in log_data.items()}
