"""Plans in files: what was shown is applied, or nothing if the server has moved on.

The names of media files in a plan begin at its folder, so that the two can be moved together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from socialpub_client import atomic_files
from socialpub_client.apply.calendar import Calendar, CalendarError, Content, Entry, MediaEntry, Place, Problem
from socialpub_client.apply.planner import CalendarPlan, Change, content_to_json

FORMAT = 2
FILE_MAX = 64 << 20


def write_plan(path: Path, plan: CalendarPlan, url: str, *, prune: bool, publish_late: bool) -> None:
    """Write a plan with the calendar it is of, and the version of each post that was seen."""
    calendar = plan.calendar
    written = {
        "format": FORMAT,
        "url": url,
        "calendar": calendar.name,
        "zone": calendar.zone,
        "prune": prune,
        "publishLate": publish_late,
        "posts": [
            {
                "id": entry.id,
                "at": entry.at.isoformat(),
                "place": [entry.place.file, entry.place.line, entry.place.column],
                "targets": {target: _format_content(content, path.parent) for target, content in entry.targets.items()},
            }
            for entry in calendar.entries
        ],
        "changes": [
            {"sign": change.sign, "id": change.id, "title": change.title, "notes": change.notes, "seen": change.seen}
            for change in plan.changes
        ],
    }
    atomic_files.write(path, (json.dumps(written, ensure_ascii=False, indent=1) + "\n").encode())


class WrittenPlan:
    """Plan that was read from a file in `folder`."""

    def __init__(self, written: Mapping[str, Any], folder: Path) -> None:
        self.url: str = written["url"]
        self.prune: bool = written["prune"]
        self.publish_late: bool = written["publishLate"]
        self.changes: dict[str, Mapping[str, Any]] = {change["id"]: change for change in written["changes"]}
        entries = tuple(
            Entry(
                post["id"],
                datetime.fromisoformat(post["at"]),
                {target: _parse_content(content, folder) for target, content in post["targets"].items()},
                Place(*post["place"]),
            )
            for post in written["posts"]
        )
        self.calendar = Calendar(written["calendar"], written["zone"], entries)

    def find_moves(self, plan: CalendarPlan) -> list[str]:
        """Return the entries that the server has changed since; those done already are none."""
        return [change.id for change in plan.changes if change.sign != "=" and not self._is_planned(change)]

    def _is_planned(self, change: Change) -> bool:
        """Return whether a change is the planned one, or its rest, on the versions seen then."""
        planned = self.changes.get(change.id)
        if planned is None or planned["sign"] != change.sign:
            return False
        return all(planned["seen"].get(post) == etag for post, etag in change.seen_by_steps.items())


def read_plan(path: Path) -> WrittenPlan:
    """Read a plan. Raises CalendarError."""
    try:
        if path.stat().st_size > FILE_MAX:
            raise ValueError("it is too large")
        written = json.loads(path.read_bytes())
        if written.get("format") != FORMAT:
            raise ValueError("it is of another version")
        plan = WrittenPlan(written, path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CalendarError([Problem(Place(str(path), 1, 1), f"the file is no plan: {error}")]) from error
    problems = [problem for entry in plan.calendar.entries for problem in _find_changed_files(entry)]
    if problems:
        raise CalendarError(problems)
    return plan


def _find_changed_files(entry: Entry) -> list[Problem]:
    """Return a problem for each media file that is not what it was when the plan was made."""
    problems: list[Problem] = []
    for content in entry.targets.values():
        for item in content.media:
            if item.file is None:
                continue
            try:
                same = MediaEntry.of_file(Path(item.file), None).sha256 == item.sha256
            except OSError as error:
                problems.append(Problem(entry.place, f"{item.file} cannot be read: {error.strerror}"))
            else:
                if not same:
                    problems.append(Problem(entry.place, f"{item.file} has changed since the plan was made"))
    return problems


def _format_content(content: Content, folder: Path) -> dict[str, Any]:
    def move(item: MediaEntry) -> MediaEntry:
        if item.file is None:
            return item
        path = Path(item.file)
        real = os.path.join(os.path.realpath(path.parent), path.name)
        return replace(item, file=os.path.relpath(real, os.path.realpath(folder)))

    return content_to_json(replace(content, media=tuple(map(move, content.media))))


def _parse_content(content: Mapping[str, Any], folder: Path) -> Content:
    items = [MediaEntry(**item) for item in content["media"]]
    media = tuple(item if item.file is None else replace(item, file=str(folder / item.file)) for item in items)
    return Content(content["text"], media, content["options"])
