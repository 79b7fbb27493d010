"""Check the locked packages against a local database of known vulnerabilities.

The database is in OSV's form: a zip (PyPI's `all.zip`) or a folder with an advisory in each `.json` or `.yaml` (a clone
of github.com/pypa/advisory-database).

    python .ci/advisories.py DATABASE LOCK…

Ends with 1 when a package has a known vulnerability, with 2 when that cannot be told.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

OLD_DAYS = 30
LOCKED = re.compile(r"^([A-Za-z0-9][\w.-]*)==(\S+)", re.MULTILINE)
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotDoneError(Exception):
    """Why nothing can be told."""


def main(database: Path, locks: list[Path]) -> int:
    try:
        locked, advisories = _locked(locks), list(_advisories(database))
        found = sorted({line for advisory in advisories for line in _findings(advisory, locked)})
        newest = _newest(advisories)
    except NotDoneError as why:
        print(f"!!! AUDIT NOT DONE: {why}", file=sys.stderr)
        return 2
    age = (datetime.now(UTC) - newest).days
    print(f"==> {len(locked)} packages, {len(advisories)} advisories, the newest of {newest:%Y-%m-%d}")
    if age > OLD_DAYS:
        print(f"!!! THE DATABASE IS OLD: nothing of its last {age} days is known. Get a new one.", file=sys.stderr)
    for line in found:
        print(line)
    print(
        "==> a locked package has a known vulnerability" if found else "==> no locked package has a known vulnerability"
    )
    return 1 if found else 0


def _locked(locks: list[Path]) -> dict[str, set[Version]]:
    """By its name, each version of a package that some lock has."""
    found: dict[str, set[Version]] = {}
    for lock in locks:
        for name, version in LOCKED.findall(lock.read_text(encoding="utf-8")):
            found.setdefault(canonicalize_name(name), set()).add(Version(version))
    if not found:
        raise NotDoneError("the lock files name no package.")
    return found


# --- The database --------------------------------------------------------------------------------------------------


def _advisories(database: Path) -> Iterator[dict[str, Any]]:
    """Those of PyPI that were not withdrawn."""
    if not database.exists():
        raise NotDoneError(f"there is no {database}.")
    read = 0
    for name, content in _files(database):
        try:
            advisory = json.loads(content) if name.endswith(".json") else yaml.load(content, YAML)
        except (ValueError, yaml.YAMLError) as error:
            raise NotDoneError(f"{name} cannot be read: {error}") from error
        if isinstance(advisory, dict) and not advisory.get("withdrawn") and any(_affected(advisory)):
            read += 1
            yield advisory
    if not read:
        raise NotDoneError(f"{database} holds no advisory of PyPI.")


def _files(database: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if database.is_dir():
            for path in sorted(path for path in database.rglob("*") if _is_advisory(path.name)):
                yield str(path), path.read_bytes()
            return
        with zipfile.ZipFile(database) as archive:
            for name in filter(_is_advisory, archive.namelist()):
                yield name, archive.read(name)
    except (OSError, zipfile.BadZipFile) as error:
        raise NotDoneError(f"{database} cannot be read: {error}") from error


def _is_advisory(name: str) -> bool:
    return name.endswith((".json", ".yaml", ".yml"))


def _affected(advisory: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for affected in advisory.get("affected") or []:
        if affected.get("package", {}).get("ecosystem") == "PyPI":
            yield affected


def _newest(advisories: list[dict[str, Any]]) -> datetime:
    """When the latest of them was written or changed."""
    return max(datetime.fromisoformat(str(advisory["modified"])).astimezone(UTC) for advisory in advisories)


# --- Comparing -----------------------------------------------------------------------------------------------------


def _findings(advisory: dict[str, Any], locked: dict[str, set[Version]]) -> Iterator[str]:
    for affected in _affected(advisory):
        name = canonicalize_name(affected["package"]["name"])
        for version in locked.get(name, ()):
            if _is_affected(affected, version, advisory["id"]):
                aliases = ", ".join(advisory.get("aliases") or ["no other name"])
                yield f"{name} {version}: {advisory['id']} ({aliases}), fixed in {_fixed(affected) or 'no version'}"


def _is_affected(affected: dict[str, Any], version: Version, id: str) -> bool:
    if version in {parsed for text in affected.get("versions") or [] if (parsed := _version(text)) is not None}:
        return True
    ranges = [found for found in affected.get("ranges") or [] if found["type"] == "ECOSYSTEM"]
    if not ranges and not affected.get("versions"):
        raise NotDoneError(f"{id} does not say which versions of a locked package it is about.")
    return any(_is_within(found["events"], version, id) for found in ranges)


def _is_within(events: list[dict[str, str]], version: Version, id: str) -> bool:
    """OSV's rule: the last event at or before a version decides; what is last affected is affected itself."""
    order = {"introduced": 0, "fixed": 1, "limit": 1, "last_affected": 2}
    steps = sorted((_bound(text, id), order[kind], kind) for event in events for kind, text in event.items())
    affected = False
    for at, _, kind in steps:
        if version < at or (kind == "last_affected" and version == at):
            break
        affected = kind == "introduced"
    return affected


def _bound(text: str, id: str) -> Version:
    found = _version("0.dev0" if text == "0" else text)
    if found is None:
        raise NotDoneError(f"{id} is about a locked package and its version {text!r} cannot be read.")
    return found


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None  # of a time before versions had a form


def _fixed(affected: dict[str, Any]) -> str:
    events = [event for found in affected.get("ranges") or [] for event in found["events"]]
    return ", ".join(event["fixed"] for event in events if "fixed" in event and _version(event["fixed"]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]))
