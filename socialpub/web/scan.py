"""A JSON body looked through as it arrives, before anything is made of it.

It counts: how deep, how many parts, how many fields and entries in each place, how many characters in a string. And it
takes the files out: the value of each `bytesBase64` goes to the disk, and its place is taken by the hash of what it
stands for. What comes out is small enough to be parsed as a whole. Whether it is JSON at all the parser says, not this.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from socialpub.base.errors import ApiError, refuse
from socialpub.domain.media.files import Arriving
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.common import TEXT_MAX
from socialpub.domain.shapes.posts import MEDIA_MAX, TARGETS_MAX

DEPTH_MAX = 32
PARTS_MAX = 30_000  # 25 targets with all that they may have come to half of it
FIELDS_MAX = 100
ENTRIES_MAX = 1_000
_MOST = {"media": MEDIA_MAX, "targets": TARGETS_MAX}
_FEW = min(FIELDS_MAX, ENTRIES_MAX, *_MOST.values())  # as many are not too many anywhere
PLAIN_MAX = 8 * 1024  # fewer parts than PARTS_MAX, and no string as long as TEXT_MAX
INLINE = "bytesBase64"
NOTHING = ""  # stands for a file that is none: it is refused where its item is looked at

_NAME_CHARS = 100  # of any field's name, many times over
_NAME_BYTES = 600  # of a longer name a beginning is kept; no field has one
_PART = re.compile(rb"[ \t\r\n]+|[\[\]{},:][ \t\r\n]*+|\"|[^\[\]{},:\" \t\r\n]+")
_SHORT = re.compile(rb"\"([^\"\\]{0,500}+)\"(?:([,:])[ \t\r\n]*+)?+")  # most strings, with what follows them
_STRING = re.compile(rb"[^\"\\]*+(?:\\.[^\"\\]*+)*+", re.DOTALL)
_ALPHABET = re.compile(r"[A-Za-z0-9+/=]*")
_ESCAPE = 6  # characters of \u0041
_PAIR = 11  # bytes that \ud83d\ude00 has more than characters, in two escapes
_CONTINUES = bytes(range(0x80, 0xC0))  # no character of UTF-8 begins with these


@dataclass
class _Place:
    """An object or an array that is open."""

    is_object: bool
    most: int
    names: set[str] = field(default_factory=set)
    name: str = ""
    count: int = 0  # of the values that began here
    names_next: bool = True


class Scan:
    """What a body holds so far. `feed` raises ApiError for what is too much; `kept` is the JSON that is left.

    `inline`: the files by their hash, to be closed by whoever takes them. `twice`: a name that stands twice in one
    object. `aside`: bytes of the body that went into files.
    """

    def __init__(self, open_file: Callable[[], Arriving] | None = None) -> None:
        self.kept, self.aside = bytearray(), 0
        self.inline: dict[str, Arriving] = {}
        self.twice: str | None = None
        self._open_file = open_file
        self._places: list[_Place] = []
        self._rest = b""
        self._parts = 0
        self._string: _Name | _File | _Text | None = None
        self._in_scalar = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of the body; in a thread where it may carry files, since it writes to the disk."""
        data, at = self._rest + data, 0
        self._rest = b""
        while at < len(data):
            at = self._go_on(data, at) if self._string else self._step(data, at)

    def close(self) -> None:
        """Drop the files."""
        if isinstance(self._string, _File):
            self._string.drop()
        for arriving in self.inline.values():
            arriving.close()

    def take_plain(self, body: bytes) -> bool:
        """Take a whole body that is plain (`is_plain`): False, and nothing is taken, for any other."""
        if not is_plain(body):
            return False
        self.kept += body
        return True

    # --- Parts ---

    def _step(self, data: bytes, at: int) -> int:
        match = _PART.match(data, at)
        assert match is not None, "the pattern takes any byte"
        part, sign = match[0], match[0][:1]
        if sign == b'"':
            self._in_scalar = False
            self._count()
            short = _SHORT.match(data, at)
            if short and self._take_short(short[1]):
                self.kept += short[0]
                self._end_short(short[2])
                return short.end()
            self._string = self._begin_string()
            return match.end()
        self.kept += part
        if not sign.isspace():
            self._take(sign)
        return match.end()

    def _take(self, sign: bytes) -> None:
        goes_on, self._in_scalar = self._in_scalar, sign not in b"[]{},:"
        if self._in_scalar and goes_on:
            return  # a number that came in two pieces
        self._count()
        if sign in b"[{":
            self._value()
            if len(self._places) == DEPTH_MAX:
                raise refuse("body.json", f"The body is more than {DEPTH_MAX} levels deep.")
            self._places.append(_Place(sign == b"{", self._most(sign)))
        elif sign in b"]}":
            del self._places[-1:]
        elif sign == b"," and self._places:
            self._places[-1].names_next = True
        elif self._in_scalar:
            self._value()

    def _count(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise self._too_many([], f"The body has more than {PARTS_MAX:,} parts")

    def _value(self) -> None:
        if not self._places:
            return
        place = self._places[-1]
        place.count += 1
        if place.count <= place.most:
            return
        if self._path() == ["targets"]:
            raise refuse("targets.max")
        things = "fields" if place.is_object else "entries"
        raise self._too_many(self._path(), f"There are more than {place.most:,} {things}")

    def _most(self, sign: bytes) -> int:
        """How many values an object or an array that begins here may have."""
        if sign == b"{":
            return FIELDS_MAX
        if not (self._places and self._places[-1].is_object):
            return ENTRIES_MAX
        name = self._places[-1].name
        if name == "media":
            return MEDIA_MAX
        return TARGETS_MAX if name == "targets" and len(self._places) == 1 else ENTRIES_MAX

    def _path(self) -> list[str | int]:
        """Where the innermost open object or array stands."""
        return self._here()[:-1]

    def _here(self) -> list[str | int]:
        """Where the value stands that began last."""
        return [issues.cut(place.name) if place.is_object else place.count - 1 for place in self._places]

    def _too_many(self, path: list[str | int], message: str) -> ApiError:
        return issues.schema_error([issues.issue("too_long", path, message, "less", "more")], "Send less.")

    # --- Strings ---

    def _take_short(self, raw: bytes) -> bool:
        """Whether it is one that needs no closer look."""
        place = self._places[-1] if self._places else None
        if place and place.is_object and place.names_next:
            if not raw.isascii():
                return False
            self._call(place, raw.decode())
            return True
        if self._open_file and place and place.is_object and place.name == INLINE:
            return False
        self._value()
        return True

    def _end_short(self, sign: bytes | None) -> None:
        if sign is not None:
            self._count()
        if sign == b"," and self._places:
            self._places[-1].names_next = True

    def _begin_string(self) -> _Name | _File | _Text:
        place = self._places[-1] if self._places else None
        if place and place.is_object and place.names_next:
            return _Name(place)
        self._value()
        if self._open_file and place and place.is_object and place.name == INLINE:
            return _File(self._open_file)
        self.kept += b'"'
        return _Text()

    def _go_on(self, data: bytes, at: int) -> int:
        """Take what of a string is there; half an escape waits for its other half."""
        match = _STRING.match(data, at)
        assert match is not None, "the pattern takes nothing, too"
        end, string = match.end(), self._string
        if isinstance(string, _Text):
            string.take(data[at:end])
            if string.characters > TEXT_MAX:
                raise self._too_long()
            self.kept += data[at:end]
        elif string:
            string.take(data[at:end])
        self.aside += end - at if isinstance(string, _File) else 0
        if data[end : end + 1] == b'"':
            self._end_string()
            return end + 1
        self._rest = data[end:]
        return len(data)

    def _too_long(self) -> ApiError:
        """What the schema says of such a string: none may be longer."""
        message = f"String should have at most {TEXT_MAX} characters"
        return issues.schema_error(
            [issues.issue("string_too_long", self._here(), message, f"max length {TEXT_MAX}", "string")]
        )

    def _end_string(self) -> None:
        string, self._string = self._string, None
        if isinstance(string, _Name):
            self._named(string)
        elif isinstance(string, _File):
            self.kept += json.dumps(self._arrived(string)).encode()
        else:
            self.kept += b'"'

    def _named(self, name: _Name) -> None:
        place, raw = name.place, bytes(name.raw)
        if len(raw) == _NAME_BYTES:
            place.names_next = False
            place.name = issues.cut(raw.decode("utf-8", "ignore").replace("\\", "").replace('"', ""))
            self.kept += json.dumps(place.name).encode()
            return
        self._call(place, _plain(raw))
        self.kept += b'"' + raw + b'"'

    def _call(self, place: _Place, name: str) -> None:
        """The next value of the object is called so."""
        place.names_next, place.name = False, name
        if name in place.names and self.twice is None:
            self.twice = issues.cut(name)
        place.names.add(name)

    def _arrived(self, file: _File) -> str:
        arriving = file.end()
        if arriving is None:
            return NOTHING
        if self.inline.setdefault(arriving.sha256, arriving) is not arriving:
            arriving.close()
        return arriving.sha256


def is_plain(body: bytes) -> bool:
    """Whether nothing is to be found in a whole body, as in most: what is left of it is the body itself.

    Half the limits cannot be reached in a few thousand bytes, and for the rest a parser in C is enough.
    """
    if len(body) > PLAIN_MAX:
        return False
    try:
        value = _read(body)
    except (ValueError, RecursionError):  # of what is no JSON, too
        return False
    return _has_few_parts(body) or _is_within(value, "", DEPTH_MAX)


def _read(body: bytes) -> Any:
    """The value; ValueError where a name stands twice in an object, is very long, or is that of a file.

    orjson keeps one of two values that have the same name: then it has read fewer strings than stand in the body, each
    between two quotes that no backslash is before. What it does not take, and what has two backslashes in a row, so
    that the second may not be one before a quote, Python's parser reads, which shows each object as it stands there.
    """
    if b"\\\\" in body:
        return _PARSER.decode(body.decode())
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _PARSER.decode(body.decode())
    if 2 * _strings(value) != body.count(b'"') - body.count(b'\\"'):
        raise ValueError
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; ValueError as in `_read`."""
    found = dict(pairs)
    if len(found) != len(pairs) or INLINE in found or max(map(len, found), default=0) > _NAME_CHARS:
        raise ValueError
    return found


_PARSER = json.JSONDecoder(object_pairs_hook=_once)


def _strings(value: Any) -> int:
    """How many strings there are in a value, names included; ValueError for a name that is long, or that of a file."""
    if isinstance(value, dict):
        found = len(value)
        for name, item in value.items():  # without generators, which take longer than the rest
            if len(name) > _NAME_CHARS or name == INLINE:
                raise ValueError
            found += 1 if type(item) is str else _strings(item)
        return found
    if isinstance(value, list):
        return sum([_strings(item) for item in value])
    return int(isinstance(value, str))


def _has_few_parts(body: bytes) -> bool:
    """Whether no place can have too many parts, nor be too deep, wherever the signs of them stand."""
    return body.count(b",") < _FEW and body.count(b"[") + body.count(b"{") <= DEPTH_MAX


def _is_within(value: Any, name: str, depth: int) -> bool:
    """Whether a value is at most so deep, and nothing in it is longer than the shortest that any place may be."""
    if isinstance(value, dict):
        if depth == 0 or len(value) > FIELDS_MAX:
            return False
        for called, item in value.items():
            if not _is_within(item, called, depth - 1):
                return False
    if isinstance(value, list):
        if depth == 0 or len(value) > _MOST.get(name, ENTRIES_MAX):
            return False
        for item in value:
            if not _is_within(item, "", depth - 1):
                return False
    return True


def _plain(raw: bytes) -> str:
    """A name without its escapes; one that is none is left to the parser."""
    try:
        return str(json.loads(b'"' + raw + b'"'))
    except ValueError:
        return raw.decode("utf-8", "replace")


class _Text:
    """A string that is kept as it is."""

    def __init__(self) -> None:
        self._begun = self._slashes = 0

    @property
    def characters(self) -> int:
        """So many at least, whatever its escapes stand for."""
        return self._begun - self._slashes * _PAIR // 2

    def take(self, data: bytes) -> None:
        self._begun += len(data.translate(None, _CONTINUES))
        self._slashes += data.count(b"\\")


class _Name:
    """A field's name, or the beginning of a long one."""

    def __init__(self, place: _Place) -> None:
        self.place, self.raw = place, bytearray()

    def take(self, piece: bytes) -> None:
        self.raw += piece[: _NAME_BYTES - len(self.raw)]


class _File:
    """The bytes that a string stands for in standard base64, decoded on their way to the disk."""

    def __init__(self, open_file: Callable[[], Arriving]) -> None:
        self._open_file = open_file
        self._arriving: Arriving | None = None
        self._escape, self._digits = b"", ""
        self._is_wrong = self._is_padded = False

    def take(self, piece: bytes) -> None:
        piece = self._escape + piece
        at = piece.rfind(b"\\", -_ESCAPE)
        whole = at == -1 or piece[at + 1 : at + 2] != b"u" or len(piece) - at >= _ESCAPE
        piece, self._escape = (piece, b"") if whole else (piece[:at], piece[at:])
        if not self._is_wrong:
            self._decode(self._digits + self._text(piece))

    def end(self) -> Arriving | None:
        """The file; None for what is not base64, or stands for nothing."""
        if self._is_wrong or self._escape or self._digits or self._arriving is None:
            self.drop()
            return None
        self._arriving.rest()
        return self._arriving

    def drop(self) -> None:
        if self._arriving is not None:
            self._arriving.close()
        self._arriving = None

    def _text(self, piece: bytes) -> str:
        try:
            text = piece.decode("ascii") if b"\\" not in piece else str(json.loads(b'"' + piece + b'"'))
        except ValueError:
            text = "?"
        return text

    def _decode(self, digits: str) -> None:
        whole = len(digits) // 4 * 4
        now, self._digits = digits[:whole], digits[whole:]
        self._is_wrong = not _ALPHABET.fullmatch(digits) or (self._is_padded and bool(digits))
        if now and not self._is_wrong:
            self._is_padded = now.endswith("=")
            self._write(now)
        if self._is_wrong:
            self.drop()

    def _write(self, digits: str) -> None:
        try:
            data = base64.b64decode(digits, validate=True)
        except (binascii.Error, ValueError):
            data = b""
        self._is_wrong = not data or digits.endswith("===")  # four signs stand for a byte at least
        if data:
            self._arriving = self._arriving or self._open_file()
            self._arriving.write(data)
