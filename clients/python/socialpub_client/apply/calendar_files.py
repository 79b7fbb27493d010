"""Calendars from YAML and CSV: scalars stay what was written, problems have places."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import yaml

from socialpub_client.apply.calendar import Calendar, CalendarError, Content, Entry, MediaEntry, Place, Problem
from socialpub_client.apply.local_times import parse_time

FILE_MAX = 4 << 20
ENTRIES_MAX = 2000
NODES_MAX = 200_000  # of a YAML file with its aliases written out
NAME = re.compile(r"[A-Za-z0-9._:@-]+")
EXTERNAL_ID_MAX = 128
CALENDAR_FIELDS = ("calendar", "zone", "defaults", "posts")
DEFAULT_FIELDS = ("to", "media", "only")
POST_FIELDS = ("id", "at", "to", "text", "media", "only")
MEDIA_FIELDS = ("file", "url", "id", "alt")
ONLY_FIELDS = ("text", "media", "options")
CSV_FIELDS = ("id", "at", "to", "text", "media", "alt")


@dataclass(frozen=True)
class Scalar:
    """Text of a file. `plain`: it was written without quotation marks."""

    text: str
    place: Place
    plain: bool = False


@dataclass(frozen=True)
class Items:
    """List of a file."""

    items: tuple[Value, ...]
    place: Place


@dataclass(frozen=True)
class Fields:
    """Mapping of a file."""

    fields: Mapping[str, Value]
    keys: Mapping[str, Place]
    place: Place


Value: TypeAlias = Scalar | Items | Fields


def read_calendar(paths: Sequence[Path]) -> Calendar:
    """Read files as one calendar. Raises CalendarError with every problem."""
    reader = _Reader()
    for path in paths:
        reader.read(path)
    return reader.finish()


class _Reader:
    """Entries of files so far, and their problems."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._entries: dict[str, Entry] = {}
        self._name: Scalar | None = None
        self._zone: str | None = None

    def read(self, path: Path) -> None:
        """Read one file."""
        start = Place(str(path), 1, 1)
        try:
            if path.stat().st_size > FILE_MAX:
                return self._tell(start, f"the file has more than {FILE_MAX >> 20} MiB")
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            return self._tell(start, f"the file cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            return self._tell(start, "the file is not UTF-8")
        if path.suffix.lower() == ".csv":
            return self._read_csv(path, text)
        try:
            node = yaml.BaseLoader(text).get_single_node()
            value = None if node is None else _Converter(str(path), self._tell).convert(node)
        except RecursionError:
            return self._tell(start, "the file is nested too deep")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = Place(str(path), mark.line + 1, mark.column + 1) if mark else start
            return self._tell(place, f"the file is not YAML: {error.problem or error.context}")
        except yaml.YAMLError as error:
            return self._tell(start, f"the file is not YAML: {error}")
        if not isinstance(value, Fields):
            return self._tell(start, "the file is no mapping with `calendar` and `posts`")
        return self._read_calendar(value, path.parent)

    def finish(self) -> Calendar:
        """Return the calendar. Raises CalendarError."""
        if self._name is None and not self._problems:
            self._tell(Place("calendar", 1, 1), "no file names the calendar")
        if self._problems:
            raise CalendarError(self._problems)
        assert self._name is not None
        return Calendar(self._name.text, self._zone, tuple(self._entries.values()))

    def _tell(self, place: Place, message: str) -> None:
        self._problems.append(Problem(place, message))

    # --- YAML ---

    def _read_calendar(self, top: Fields, folder: Path) -> None:
        self._check_fields(top, CALENDAR_FIELDS)
        name = self._scalar(top, "calendar")
        if name is None:
            self._tell(top.place, "`calendar`, its name, is missing")
        else:
            self._set_name(name)
        zone = self._read_zone(top)
        defaults = top.fields.get("defaults")
        if defaults is not None and not isinstance(defaults, Fields):
            self._tell(defaults.place, "`defaults` is a mapping")
            defaults = None
        if defaults is not None:
            self._check_fields(defaults, DEFAULT_FIELDS)
        posts = top.fields.get("posts")
        if not isinstance(posts, Items):
            return self._tell(top.place if posts is None else posts.place, "`posts` is a list")
        for post in posts.items:
            if isinstance(post, Fields):
                self._check_fields(post, POST_FIELDS)
                self._read_post(post, defaults, zone, folder)
            else:
                self._tell(post.place, "a post is a mapping with `id`, `at` and `text`")
        return None

    def _set_name(self, name: Scalar) -> None:
        if not NAME.fullmatch(name.text):
            self._tell(name.place, "the name of a calendar has letters, digits and any of ._:@-")
        elif self._name is not None and self._name.text != name.text:
            self._tell(name.place, f"the other file is of the calendar {self._name.text}")
        self._name = self._name or name

    def _read_zone(self, top: Fields) -> ZoneInfo | None:
        zone = self._scalar(top, "zone")
        if zone is None:
            return None
        try:
            found = ZoneInfo(zone.text)
        except (ValueError, OSError, LookupError):
            self._tell(zone.place, f"{zone.text!r} is no time zone, such as Europe/Berlin")
            return None
        self._zone = self._zone or zone.text
        return found

    def _read_post(self, post: Fields, defaults: Fields | None, zone: ZoneInfo | None, folder: Path) -> None:
        """Read one post; it is left out where it has a problem."""
        before = len(self._problems)
        name = self._need(post, "id")
        at = self._need(post, "at")
        time = None
        if at is not None:
            try:
                time = parse_time(at.text, zone)
            except ValueError as error:
                self._tell(at.place, str(error))
        text = self._scalar(post, "text")
        media = self._read_media(post, folder) if "media" in post.fields else None
        if media is None:
            media = self._read_media(defaults, folder) if defaults is not None else ()
        only = self._read_only(defaults, folder) | self._read_only(post, folder)
        targets = self._read_targets(post, defaults)
        contents: dict[str, Content] = {}
        for target, place in targets.items():
            own = only.pop(target, None)
            words = own.text if own is not None and own.text is not None else text.text if text else None
            if words is None:
                self._tell(place if text is None else text.place, f"there is no text for {target}")
                continue
            own_media = own.media if own is not None and own.media is not None else media
            contents[target] = Content(_normalize(words), own_media or (), own.options if own else None)
        for target, unused in only.items():
            if unused.of_post:
                self._tell(unused.place, f"`only` has {target}, which `to` has not")
        if name is not None:
            self._check_id(name)
        if name is not None and time is not None and len(self._problems) == before:
            self._entries[name.text] = Entry(name.text, time, contents, post.place)

    def _check_id(self, name: Scalar) -> None:
        calendar = self._name.text if self._name is not None else ""
        if not NAME.fullmatch(name.text) or len(calendar) + 1 + len(name.text) > EXTERNAL_ID_MAX:
            self._tell(
                name.place, f"an id has letters, digits and any of ._:@-, at most {EXTERNAL_ID_MAX} with the name"
            )
        elif name.text in self._entries:
            self._tell(name.place, f"the id {name.text} is there already: {self._entries[name.text].place}")
        elif len(self._entries) == ENTRIES_MAX:
            self._tell(name.place, f"a calendar has at most {ENTRIES_MAX} posts")

    def _read_targets(self, post: Fields, defaults: Fields | None) -> dict[str, Place]:
        """Return the targets of a post, in order."""
        value = post.fields.get("to")
        if value is None and defaults is not None:
            value = defaults.fields.get("to")
        if value is None:
            self._tell(post.place, "`to` is missing: platforms, account ids or @names")
            return {}
        found: dict[str, Place] = {}
        for each in value.items if isinstance(value, Items) else (value,):
            if not isinstance(each, Scalar) or not each.text:
                self._tell(each.place, "a target is a platform, an account id or @name")
            elif each.text in found:
                self._tell(each.place, f"the target {each.text} is there twice")
            else:
                found[each.text] = each.place
        if not found:
            self._tell(value.place, "`to` is empty")
        return found

    def _read_only(self, owner: Fields | None, folder: Path) -> dict[str, _Only]:
        """Return what differs for some targets."""
        value = owner.fields.get("only") if owner is not None else None
        if value is None:
            return {}
        if not isinstance(value, Fields):
            self._tell(value.place, "`only` is a mapping from targets to what differs for them")
            return {}
        found: dict[str, _Only] = {}
        for target, fields in value.fields.items():
            if not isinstance(fields, Fields):
                self._tell(fields.place, f"`only` of {target} is a mapping with any of {', '.join(ONLY_FIELDS)}")
                continue
            self._check_fields(fields, ONLY_FIELDS)
            text = self._scalar(fields, "text")
            options = fields.fields.get("options")
            if options is not None and not isinstance(options, Fields):
                self._tell(options.place, "`options` is a mapping")
            found[target] = _Only(
                fields.place,
                owner is not None and "id" in owner.fields,
                None if text is None else text.text,
                self._read_media(fields, folder),
                _to_json(options) if isinstance(options, Fields) else None,
            )
        return found

    def _read_media(self, owner: Fields, folder: Path) -> tuple[MediaEntry, ...] | None:
        """Return the media of a post; None where it has no field for them."""
        value = owner.fields.get("media")
        if value is None:
            return None
        if not isinstance(value, Items):
            self._tell(value.place, "`media` is a list")
            return ()
        found: list[MediaEntry] = []
        for item in value.items:
            if not isinstance(item, Fields):
                self._tell(item.place, "a media item is a mapping with `file`, `url` or `id`, and `alt`")
                continue
            self._check_fields(item, MEDIA_FIELDS)
            given = {name: self._scalar(item, name) for name in MEDIA_FIELDS}
            sources = [name for name in ("file", "url", "id") if given[name] is not None]
            alt = given["alt"].text if given["alt"] else None
            if len(sources) != 1:
                self._tell(item.place, "a media item has exactly one of `file`, `url` and `id`")
                continue
            source = given[sources[0]]
            assert source is not None
            if sources[0] == "file":
                found += self._read_file(folder / source.text, alt, source.place)
            else:
                found.append(MediaEntry(**{sources[0]: source.text}, alt=alt))
        return tuple(found)

    def _read_file(self, path: Path, alt: str | None, place: Place) -> Iterator[MediaEntry]:
        try:
            yield MediaEntry.of_file(path, alt)
        except OSError as error:
            self._tell(place, f"{path} cannot be read: {error.strerror}")

    # --- CSV ---

    def _read_csv(self, path: Path, text: str) -> None:
        """Read one post a row; the calendar has the file's name, unless another file names it."""
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        start = Place(str(path), 1, 1)
        self._set_name(self._name or Scalar(path.stem, start))
        zone = ZoneInfo(self._zone) if self._zone else None
        try:
            header = [name.strip() for name in next(rows, list[str]())]
            for column, name in enumerate(header, 1):
                if name not in CSV_FIELDS:
                    self._tell(Place(str(path), 1, column), _unknown(name, CSV_FIELDS))
            if "id" not in header or len(set(header)) != len(header):
                return self._tell(start, f"the first row names the columns once: {', '.join(CSV_FIELDS)}")
            line = rows.line_num
            for row in rows:
                place, line = Place(str(path), line + 1, 1), rows.line_num
                if not any(row):
                    continue
                if len(row) != len(header):
                    self._tell(place, f"the row has {len(row)} columns, the first has {len(header)}")
                    continue
                self._read_post(_row(place, dict(zip(header, row, strict=True))), None, zone, path.parent)
        except csv.Error as error:
            self._tell(Place(str(path), rows.line_num, 1), f"the file is not CSV: {error}")
        return None

    # --- Fields ---

    def _check_fields(self, value: Fields, known: Sequence[str]) -> None:
        for name, place in value.keys.items():
            if name not in known:
                self._tell(place, _unknown(name, known))

    def _scalar(self, owner: Fields, name: str) -> Scalar | None:
        value = owner.fields.get(name)
        if value is None or isinstance(value, Scalar):
            return value
        self._tell(value.place, f"`{name}` is text")
        return None

    def _need(self, owner: Fields, name: str) -> Scalar | None:
        value = self._scalar(owner, name)
        if name not in owner.fields or (value is not None and not value.text):
            self._tell(owner.place, f"`{name}` is missing")
            return None
        return value


@dataclass(frozen=True)
class _Only:
    """Differences of one target. `of_post`: the post says so, not the defaults."""

    place: Place
    of_post: bool
    text: str | None
    media: tuple[MediaEntry, ...] | None
    options: Mapping[str, Any] | None


def _unknown(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"the field {name!r} is unknown" + (
        f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    )


def _normalize(text: str) -> str:
    """Return a text with the line breaks that the API keeps."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _row(place: Place, row: Mapping[str, str]) -> Fields:
    """Return a row of a CSV as the mapping that YAML would have."""
    fields: dict[str, Value] = {name: Scalar(row[name], place) for name in ("id", "at", "text") if row.get(name)}
    if row.get("to"):
        fields["to"] = Items(tuple(Scalar(part, place) for part in row["to"].replace(",", " ").split()), place)
    if row.get("media"):
        names = [part.strip() for part in row["media"].split(";")]
        alts = [part.strip() for part in row.get("alt", "").split(";")] + [""] * len(names)
        items = [
            Fields(
                {("url" if name.startswith("https://") else "file"): Scalar(name, place)}
                | ({"alt": Scalar(alt, place)} if alt else {}),
                {},
                place,
            )
            for name, alt in zip(names, alts, strict=False)
        ]
        fields["media"] = Items(tuple(items), place)
    return Fields(fields, {}, place)


class _Converter:
    """YAML nodes as values with their places."""

    def __init__(self, file: str, tell: Any) -> None:
        self._file, self._tell, self._left = file, tell, NODES_MAX

    def convert(self, node: yaml.Node) -> Value:
        """Return a node as a value; aliases are written out, within a bound."""
        place = Place(self._file, node.start_mark.line + 1, node.start_mark.column + 1)
        self._left -= 1
        if self._left < 0:
            raise CalendarError([Problem(place, f"the file has more than {NODES_MAX} values")])
        if isinstance(node, yaml.ScalarNode):
            return Scalar(str(node.value), place, node.style is None)
        if isinstance(node, yaml.SequenceNode):
            return Items(tuple(self.convert(each) for each in node.value), place)
        fields: dict[str, Value] = {}
        keys: dict[str, Place] = {}
        for key, value in node.value:
            at = Place(self._file, key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key, yaml.ScalarNode):
                self._tell(at, "a field's name is text")
            elif key.value in fields:
                self._tell(at, f"the field {key.value!r} is there twice")
            else:
                fields[str(key.value)], keys[str(key.value)] = self.convert(value), at
        return Fields(fields, keys, place)


def _to_json(value: Value) -> Any:
    """Return options as JSON: plain `true`, `false` and whole numbers are what they look like."""
    if isinstance(value, Items):
        return [_to_json(each) for each in value.items]
    if isinstance(value, Fields):
        return {name: _to_json(each) for name, each in value.fields.items()}
    if value.plain and value.text in ("true", "false"):
        return value.text == "true"
    if value.plain and re.fullmatch(r"-?[0-9]{1,15}", value.text):
        return int(value.text)
    return value.text
