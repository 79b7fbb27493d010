"""What is written for people to read, in the log or beside a post: never a secret, and in the log one line for each.

`redact` takes out what looks like a secret wherever it came from; `remove_secrets` takes out secrets that are known,
also in the ways that they are written into addresses and headers; `redact_json` does both to a whole JSON value.
"""

from __future__ import annotations

import base64
import bisect
import contextlib
import functools
import itertools
import json
import logging
import re
import sys
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

from pythonjsonlogger import json as json_lines

from socialpub.base import json_codec

T = TypeVar("T")
PLACEHOLDER = "[hidden]"
LINE_MAX = 16 * 1024  # characters of a line of the log
RESPONSE_MAX = 16 * 1024  # characters of a platform's answer, of which no more is kept (`intents.RESPONSE_MAX`)
_SECRET_MAX = 8 * 1024  # characters of a secret
SECRET_MIN = 8  # what is shorter stands in too many words

_SECRET_PARAMETERS = (  # parameters that sign an address, or are as good as a password
    "x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|signature|sig|policy"
    "|key-pair-id|hmac|[a-z_]*token|appsecret_proof|client_secret|client_assertion|code_verifier|code|refresh|jwt"
    "|password|secret|api_key|apikey|access_key|oh|oe"
)
# (words, one of which stands in whatever it finds, in small letters; pattern; what is left in its place)
_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        ("_live_", "_test_"),
        re.compile(r"\b([A-Za-z0-9]{1,32}_(?:live|test)_)[0-9A-Za-z]{20,}"),
        rf"\1{PLACEHOLDER}",
    ),  # keys
    (
        ("bearer", "dpop", "basic", "oauth"),
        re.compile(r"\b(Bearer|DPoP|Basic|OAuth)( +|%20|\+)[A-Za-z0-9._~+/%-]{16,}=*", re.IGNORECASE),
        rf"\1\2{PLACEHOLDER}",
    ),
    (  # JSON web tokens; a run without a second part is matched too (and kept), or each "eyJ" in it would rescan it
        ("eyj",),
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}+(\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?)?"),
        lambda found: PLACEHOLDER if found[1] else found[0],
    ),
    (
        ("=",),
        re.compile(rf"([?&;](?:amp;)?(?:{_SECRET_PARAMETERS})=)[^&#;\s\"'<>\\]+", re.IGNORECASE),
        rf"\1{PLACEHOLDER}",
    ),
    (
        ("%3d",),
        re.compile(rf"((?:%3F|%26)(?:{_SECRET_PARAMETERS})%3D)(?:(?!%26|%23)[^&#;\s\"'<>\\])+", re.IGNORECASE),
        rf"\1{PLACEHOLDER}",
    ),
    (("/setup/",), re.compile(r"(/setup/)[A-Za-z0-9_-]{8,}"), rf"\1{PLACEHOLDER}"),
    (("/media/med_",), re.compile(r"(/media/med_[A-Za-z0-9]+/)[A-Za-z0-9_-]{8,}"), rf"\1{PLACEHOLDER}"),
    (("://",), re.compile(r"(://)[^/\s@:\"'<>]+:[^/\s@\"'<>]+@"), rf"\1{PLACEHOLDER}@"),  # name and password
)


_PATTERN_WORDS = tuple(word for words, _, _ in _PATTERNS for word in words)


def redact(said: str) -> str:
    """Without what looks like a key, a bearer token, a signature of an address, a set-up link."""
    if not _may_contain_secret(said):
        return said
    for _, pattern, instead in _PATTERNS:
        said = pattern.sub(instead, said)
    return said


def _may_contain_secret(said: str) -> bool:
    """Whether a pattern may find something: few lines hold any of the words, and to look for these takes less."""
    if not said.isascii():
        return True  # other letters may count as these where case does not
    plain = said.lower()
    for word in _PATTERN_WORDS:  # noqa: SIM110 - a generator takes as long as all the words
        if word in plain:
            return True
    return False


def remove_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace these secrets, plain or encoded, whichever of their characters are escaped.

    URL escapes and JSON escapes are decoded up to `_LAYERS` times, so escapes inside escapes are found as well.
    """
    forms = [form for secret in secrets if len(secret) >= SECRET_MIN for form in _list_encodings(secret)]
    for form in forms:
        text = text.replace(form, PLACEHOLDER)
    if not forms or ("%" not in text and "\\" not in text):
        return text
    raw = text.encode("utf-8", "surrogatepass")
    parts, at = [], 0
    for start, end in _find_encoded(raw, [_encode_form(form) for form in forms]):
        parts.append(raw[at:start])
        at = end
    return PLACEHOLDER.encode().join([*parts, raw[at:]]).decode("utf-8", "surrogatepass")


def _encode_form(form: str) -> bytes:
    try:
        return form.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return form.encode("utf-8", "surrogatepass")


_LAYERS = 3
# A URL escape, itself escaped any number of times.
_URL_ESCAPE = rb"%(?:25)*(?P<byte>[0-9A-Fa-f]{2})"
# A character of JSON in one escape or two, or a quote or slash, after any number of backslashes.
_JSON_ESCAPE = (
    rb"(?<!\\)\\++u(?P<high>[Dd][89ABab][0-9A-Fa-f]{2})\\++u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2})"
    rb"|(?<!\\)\\++(?:u(?P<unit>[0-9A-Fa-f]{4})|(?P<sign>[\"/]))"
)
_URL_ESCAPES = re.compile(_URL_ESCAPE)
_JSON_ESCAPES = re.compile(_JSON_ESCAPE)
_ESCAPES = re.compile(_URL_ESCAPE + rb"|" + _JSON_ESCAPE)


def _unescape(raw: bytes, escapes: re.Pattern[bytes] = _ESCAPES) -> tuple[bytes, list[tuple[int, int]]]:
    """Decode one layer of escapes; return the bytes, and pairs of offsets (decoded, raw) around each escape."""
    plain, ends, at = bytearray(), [(0, 0)], 0
    for match in escapes.finditer(raw):
        plain += raw[at : match.start()]
        ends.append((len(plain), match.start()))
        plain += _decode_escape(match.groupdict())
        at = match.end()
        ends.append((len(plain), at))
    plain += raw[at:]
    return bytes(plain), ends


def _decode_escape(groups: dict[str, bytes]) -> bytes:
    if byte := groups.get("byte"):
        return bytes([int(byte, 16)])
    if high := groups["high"]:
        code = 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(groups["low"], 16) - 0xDC00
        return chr(code).encode()
    return groups["sign"] or chr(int(groups["unit"], 16)).encode("utf-8", "surrogatepass")


def _find_encoded(raw: bytes, forms: Collection[bytes]) -> list[tuple[int, int]]:
    """Return the spans of `raw` that decode to one of the forms, in order; overlapping spans are joined."""
    spans: list[tuple[int, int]] = []
    plain, layers = raw, list[list[tuple[int, int]]]()
    while len(layers) < _LAYERS:
        decoded, ends = _unescape(plain)
        if decoded == plain:
            break
        plain = decoded
        layers.insert(0, ends)
        for span in _find_spans(plain, forms):
            for ends in layers:
                span = (_map_to_raw(ends, span[0], is_end=False), _map_to_raw(ends, span[1], is_end=True))
            spans.append(span)
    return _join_spans(spans)


def _find_spans(plain: bytes, forms: Iterable[bytes]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for form in forms:
        at = plain.find(form)
        while at >= 0:
            spans.append((at, at + len(form)))
            at = plain.find(form, at + len(form))
    return _join_spans(spans)


def _join_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _map_to_raw(ends: list[tuple[int, int]], at: int, *, is_end: bool) -> int:
    """Where a place of what was unescaped is in the bytes themselves; inside an escape, before it or behind it."""
    index = bisect.bisect_right(ends, (at, sys.maxsize)) - 1
    plain, raw = ends[index]
    if index % 2 and at > plain:  # inside an escape
        return ends[index + 1][1] if is_end else raw
    return raw + at - plain


def redact_and_cut(said: str, most: int, clean: Callable[[str], str]) -> str:
    """Return the beginning of a text, cut before it is cleaned: cleaning a whole MiB takes long.

    A secret that begins before the cut is seen whole; what is left of one that ends behind is dropped.
    """
    if len(said) <= most:
        return clean(said)
    return f"{clean(said[: most + _SECRET_MAX])[:-_SECRET_MAX]}… ({len(said):,} characters)"


def redact_json(raw: Any, secrets: Collection[str] = (), most: int = sys.maxsize) -> Any:
    """A JSON value without secrets: by the names of its fields, and wherever one of `secrets` stands.

    Of a value of more than `most` characters about as many are kept.
    """
    return _JsonRedactor(lambda said: redact(remove_secrets(said, secrets)), most, by_name=True).of(raw)


class _JsonRedactor:
    """One pass over a JSON value, which ends where enough is kept."""

    def __init__(self, clean: Callable[[str], str], most: int, *, by_name: bool) -> None:
        self.clean, self.left, self.by_name = clean, most, by_name

    def of(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return {self.said(name): self._field(name, item) for name, item in self._first(raw.items())}
        if isinstance(raw, list):
            return [self.of(item) for item in self._first(raw)]
        if isinstance(raw, str):
            return self.said(raw)
        self.left -= 1
        return raw

    def said(self, said: str) -> str:
        kept = redact_and_cut(said, max(0, self.left), self.clean)
        self.left = 0 if len(said) > self.left else self.left - len(kept) - 1
        return kept

    def _field(self, name: str, item: Any) -> Any:
        return PLACEHOLDER if self.by_name and _is_secret_field(name, item) else self.of(item)

    def _first(self, items: Iterable[T]) -> Iterator[T]:
        return itertools.takewhile(lambda _: self.left > 0, items)


_SECRET_FRAGMENTS = (
    "token",
    "jwt",
    "password",
    "secret",
    "authorization",
    "cookie",
    "signature",
    "assertion",
    "credential",
)
_SECRET_WORDS = frozenset(
    {"sig", "key", "keys", "session", "sid", "hmac", "otp", "pwd", "passwd", "passphrase", "passcode", "bearer", "dpop"}
)
_SECRET_COMPOUNDS = (
    "apikey",
    "sessionid",
    "sessionkey",
    "accesskey",
    "privatekey",
    "authkey",
)  # words that are written as one
_NOT_SECRET_ENDINGS = frozenset(
    {"at", "in", "count", "expires", "expiry", "expiration", "length", "limit", "seconds", "ttl"}
)
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@functools.lru_cache(1024)
def _split_name(name: str) -> tuple[str, ...]:
    """The words of a field's name in whichever way it is spelt, and each of its parts as one."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return (*(part for part in re.split(r"[^a-z]+", name.lower()) if part), *words)


def _is_secret_field(name: str, value: object) -> bool:
    """Whether the field's name says that its value is a secret; a number may also be when one ends, or how many."""
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return False
    words = _split_name(name[:_NAME_MAX])
    if not isinstance(value, str) and words and words[-1] in _NOT_SECRET_ENDINGS:
        return False
    plain = "".join(part for part in re.split(r"[^a-z]+", name[:_NAME_MAX].lower()))
    return not _SECRET_WORDS.isdisjoint(words) or any(
        part in plain for part in (*_SECRET_FRAGMENTS, *_SECRET_COMPOUNDS)
    )


_NAME_MAX = 200  # characters of a field's name that are looked at


def redact_response(raw: bytes, secrets: Collection[str]) -> bytes:
    """The bytes of an answer without these secrets. Of a long one the beginning; what was JSON stays JSON."""

    def clean(said: str) -> str:
        return remove_secrets(said, secrets)

    if len(raw) > RESPONSE_MAX:
        with contextlib.suppress(ValueError, RecursionError):
            short = _JsonRedactor(clean, RESPONSE_MAX, by_name=False).of(json_codec.loads(raw))
            return json.dumps(short).encode()
    return redact_and_cut(raw.decode("utf-8", "surrogateescape"), RESPONSE_MAX, clean).encode(
        "utf-8", "surrogateescape"
    )


@functools.lru_cache(256)
def _list_encodings(secret: str) -> tuple[str, ...]:
    raw = secret.encode("utf-8", "surrogatepass")
    once = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms = {secret, *once, *(json.dumps(form, ensure_ascii=False)[1:-1] for form in once)}
    forms |= _decode_own_escapes(forms)
    forms |= {urllib.parse.quote(secret, safe="", errors="replace"), raw.hex(), raw.hex().upper()}
    for before in range(3):  # how many bytes of something else share its first letter
        core = base64.b64encode(b"\0" * before + raw).rstrip(b"=").decode()
        core = core[(0, 2, 3)[before] : -1]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return tuple(sorted((form for form in forms if len(form) >= SECRET_MIN), key=len, reverse=True))


def _decode_own_escapes(forms: Iterable[str]) -> set[str]:
    """Return what remains of a secret that holds escapes itself when a text is decoded: URL's, JSON's, or both."""
    decoded = {_encode_form(form) for form in forms}
    for _ in range(_LAYERS):
        decoded |= {
            _unescape(form, escapes)[0] for form in decoded for escapes in (_URL_ESCAPES, _JSON_ESCAPES, _ESCAPES)
        }
    return {form.decode("utf-8", "surrogateescape") for form in decoded}


# --- The log -----------------------------------------------------------------------------------------------------

# What moves, hides or ends a line: controls, separators, marks of direction, halves of characters.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_INDENT = "\n  | "


def escape_controls(said: str) -> str:
    """As one line of visible characters."""
    if said.isascii() and said.isprintable():
        return said
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), said)


class TextLogFormatter(logging.Formatter):
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
            return escape_controls(_redact_line(said))
        return _INDENT.join(escape_controls(_redact_line(part)) for part in said.split("\n"))


def _redact_line(said: str) -> str:
    """A line without secrets and not too long; a secret in which it would end is seen whole before."""
    return redact_and_cut(said, LINE_MAX, redact)


class JsonLogFormatter(json_lines.JsonFormatter):
    """The same for programs: each record is an object on a line of its own.

    A record whose `names` say what its arguments are has each of them as a field too.
    """

    def __init__(self) -> None:
        super().__init__(json_ensure_ascii=False)
        self._clock = TextLogFormatter()

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
        return {name: _redact_line(value) if isinstance(value, str) else value for name, value in log_data.items()}
