"""Redaction of secrets in log lines and platform responses, and the log formatters.

`redact` removes what looks like a secret; `remove_secrets` removes known secrets, in every encoding that URLs, JSON and
headers use; `redact_json` does both to a JSON value.
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
from socialpub_client.terminal_text import escape_controls

T = TypeVar("T")
PLACEHOLDER = "[hidden]"
LINE_MAX = 16 * 1024  # characters of a line of the log
RESPONSE_MAX = 16 * 1024  # characters or bytes stored of a platform's response
_SECRET_MAX = 8 * 1024  # characters of a secret
SECRET_MIN = 8  # a shorter one would be found in ordinary words

_SECRET_PARAMETERS = (  # URL parameters that are signatures or credentials
    "x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|signature|sig|policy"
    "|key-pair-id|hmac|[a-z_]*token|appsecret_proof|client_secret|client_assertion|code_verifier|code|refresh|jwt"
    "|password|secret|api_key|apikey|access_key|oh|oe"
)
_PATTERNS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\b([A-Za-z0-9]{1,32}_(?:live|test)_)[0-9A-Za-z]{20,}"), rf"\1{PLACEHOLDER}"),  # keys
    (
        re.compile(r"\b(Bearer|DPoP|Basic|OAuth)( +|%20|\+)[A-Za-z0-9._~+/%-]{16,}=*", re.IGNORECASE),
        rf"\1\2{PLACEHOLDER}",
    ),
    (  # JSON web tokens; a run without a second part is matched too and left as it is, so that it is scanned only once
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}+(\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?)?"),
        lambda match: PLACEHOLDER if match[1] else match[0],
    ),
    (
        re.compile(rf"([?&;](?:amp;)?(?:{_SECRET_PARAMETERS})=)[^&#;\s\"'<>\\]+", re.IGNORECASE),
        rf"\1{PLACEHOLDER}",
    ),
    (
        re.compile(rf"((?:%3F|%26)(?:{_SECRET_PARAMETERS})%3D)(?:(?!%26|%23)[^&#;\s\"'<>\\])+", re.IGNORECASE),
        rf"\1{PLACEHOLDER}",
    ),
    (re.compile(r"(/setup/)[A-Za-z0-9_-]{8,}"), rf"\1{PLACEHOLDER}"),
    (re.compile(r"(/media/med_[A-Za-z0-9]+/)[A-Za-z0-9_-]{8,}"), rf"\1{PLACEHOLDER}"),
    (re.compile(r"(://)[^/\s@:\"'<>]+:[^/\s@\"'<>]+@"), rf"\1{PLACEHOLDER}@"),  # name and password
)


def redact(text: str) -> str:
    """Replace what looks like a key, bearer token, URL signature or set-up link."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


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
    """Decode one layer of escapes.

    Return the bytes, and pairs of offsets (decoded, raw) before and after each escape.
    """
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
    """Return the spans of `raw` that decode to one of the forms.

    In order; overlapping spans are joined.
    """
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
    """Map an offset of the decoded bytes to the raw ones.

    An offset inside an escape maps to its start, or to its end if `is_end`.
    """
    index = bisect.bisect_right(ends, (at, sys.maxsize)) - 1
    plain, raw = ends[index]
    if index % 2 and at > plain:  # inside an escape
        return ends[index + 1][1] if is_end else raw
    return raw + at - plain


def redact_and_cut(text: str, limit: int, clean: Callable[[str], str]) -> str:
    """Return the redacted beginning of a text, at most `limit` characters.

    The text is cut first, because redacting a whole MiB is slow. A secret that begins before the cut is redacted whole:
    _SECRET_MAX characters more are redacted and then dropped.
    """
    if len(text) <= limit:
        return clean(text)
    return f"{clean(text[: limit + _SECRET_MAX])[:-_SECRET_MAX]}… ({len(text):,} characters)"


def redact_json(raw: Any, secrets: Collection[str] = (), limit: int = sys.maxsize) -> Any:
    """Return a JSON value with secret fields and `secrets` redacted.

    Secret fields are recognized by their names. The value is cut at about `limit` characters.
    """
    return _JsonRedactor(lambda text: redact(remove_secrets(text, secrets)), limit, by_name=True).redact(raw)


class _JsonRedactor:
    """One pass over a JSON value, which ends when the limit of characters is reached."""

    def __init__(self, clean: Callable[[str], str], limit: int, *, by_name: bool) -> None:
        self.clean, self.remaining, self.by_name = clean, limit, by_name

    def redact(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return {self.redact_text(name): self._field(name, item) for name, item in self._take(raw.items())}
        if isinstance(raw, list):
            return [self.redact(item) for item in self._take(raw)]
        if isinstance(raw, str):
            return self.redact_text(raw)
        self.remaining -= 1
        return raw

    def redact_text(self, text: str) -> str:
        redacted = redact_and_cut(text, max(0, self.remaining), self.clean)
        self.remaining = 0 if len(text) > self.remaining else self.remaining - len(redacted) - 1
        return redacted

    def _field(self, name: str, item: Any) -> Any:
        return PLACEHOLDER if self.by_name and _is_secret_field(name, item) else self.redact(item)

    def _take(self, items: Iterable[T]) -> Iterator[T]:
        return itertools.takewhile(lambda _: self.remaining > 0, items)


_SECRET_FRAGMENTS = (
    "token", "jwt", "password", "secret", "authorization", "cookie", "signature", "assertion", "credential",
)  # fmt: skip
_SECRET_WORDS = frozenset(
    {"sig", "key", "keys", "session", "sid", "hmac", "otp", "pwd", "passwd", "passphrase", "passcode", "bearer", "dpop"}
)
# Words that are written as one.
_SECRET_COMPOUNDS = ("apikey", "sessionid", "sessionkey", "accesskey", "privatekey", "authkey")
_NOT_SECRET_ENDINGS = frozenset(
    {"at", "in", "count", "expires", "expiry", "expiration", "length", "limit", "seconds", "ttl"}
)
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@functools.lru_cache(1024)
def _split_name(name: str) -> tuple[str, ...]:
    """Return the words of a field's name in any spelling, and each of its parts as one word."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return (*(part for part in re.split(r"[^a-z]+", name.lower()) if part), *words)


def _is_secret_field(name: str, value: object) -> bool:
    """Return whether a field's name says that its value is secret.

    A number may also be the expiry or count of one.
    """
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return False
    words = _split_name(name[:_NAME_MAX])
    if not isinstance(value, str) and words and words[-1] in _NOT_SECRET_ENDINGS:
        return False
    plain = "".join(part for part in re.split(r"[^a-z]+", name[:_NAME_MAX].lower()))
    return not _SECRET_WORDS.isdisjoint(words) or any(
        part in plain for part in (*_SECRET_FRAGMENTS, *_SECRET_COMPOUNDS)
    )


_NAME_MAX = 200  # characters of a field's name that are checked


def redact_response(raw: bytes, secrets: Collection[str]) -> bytes:
    """Return the body of a response with these secrets redacted.

    It is cut at RESPONSE_MAX characters; JSON stays JSON.
    """

    def clean(text: str) -> str:
        return remove_secrets(text, secrets)

    if len(raw) > RESPONSE_MAX:
        with contextlib.suppress(ValueError, RecursionError):
            short = _JsonRedactor(clean, RESPONSE_MAX, by_name=False).redact(json_codec.loads(raw))
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
    for before in range(3):  # the number of other bytes before it in the encoded text
        core = base64.b64encode(b"\0" * before + raw).rstrip(b"=").decode()
        core = core[(0, 2, 3)[before] : -1]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return tuple(sorted((form for form in forms if len(form) >= SECRET_MIN), key=len, reverse=True))


def _decode_own_escapes(forms: Iterable[str]) -> set[str]:
    """Decode the escapes that a secret itself contains: URL's, JSON's, or both.

    A text that is decoded once or several times shows the secret so.
    """
    decoded = {_encode_form(form) for form in forms}
    for _ in range(_LAYERS):
        decoded |= {
            _unescape(form, escapes)[0] for form in decoded for escapes in (_URL_ESCAPES, _JSON_ESCAPES, _ESCAPES)
        }
    return {form.decode("utf-8", "surrogateescape") for form in decoded}


# --- The log -----------------------------------------------------------------------------------------------------

_INDENT = "\n  | "


class TextLogFormatter(logging.Formatter):
    """Formats a record as one line, and its traceback as indented lines, without secrets.

    No input can forge another record.
    """

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if "\n" not in text:
            return escape_controls(_redact_line(text))
        return _INDENT.join(escape_controls(_redact_line(part)) for part in text.split("\n"))


def _redact_line(text: str) -> str:
    """Redact a line and cut it to LINE_MAX characters."""
    return redact_and_cut(text, LINE_MAX, redact)


class JsonLogFormatter(json_lines.JsonFormatter):
    """Formats a record as one line with a JSON object, without secrets.

    A record whose `names` name its arguments has each of them as a field, too.
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
