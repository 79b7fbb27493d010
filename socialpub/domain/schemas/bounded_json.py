"""Parser of JSON request bodies, with limits checked before objects are created.

orjson parses 16 MiB in at most 40 ms, during which no other thread runs. The standard library, which could report
duplicate names, and pydantic take two to seven times as long.
"""

from __future__ import annotations

import codecs
import json
from typing import Any

import orjson

from socialpub.base.errors import rule_error

VALUES_MAX = 15_000  # 25 targets with all possible fields have 5,000
DEPTH_MAX = 32
ESCAPES_MAX = 2_500_000  # 25 texts of 100,000 characters; more would block the interpreter for 100 ms
DUPLICATE_SEARCH_MAX = 64 * 1024  # bytes; larger bodies are not parsed again to find the duplicate name
NAME_MAX = 100  # displayed characters of a name


def load(body: bytes) -> Any:
    """Parse a body. Raises ApiError `body.json`, also for exceeded limits and duplicate names.

    A leading byte order mark is skipped (RFC 8259 8.1): .NET, PowerShell and SharePoint write one. orjson keeps one of
    two equal names, so a duplicate shows as fewer parsed strings than pairs of quotation marks.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    if body.count(b"\\") > ESCAPES_MAX:
        raise rule_error("body.json", f"The body has more than {ESCAPES_MAX:,} backslashes.")
    marks = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # the remaining `"` delimit strings
    quotes = marks.count(b'"')
    if quotes > 4 * VALUES_MAX or (
        _count_values(marks) > VALUES_MAX and _count_values(_strip_strings(marks)) > VALUES_MAX
    ):
        raise rule_error("body.json", f"The body has more than {VALUES_MAX:,} values.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        issue = {
            "code": "json_invalid",
            "expected": "JSON",
            "received": "text",
            "path": [],
            "message": f"Invalid JSON: {error}",
        }
        raise rule_error("body.json", platform_response=[issue]) from error
    if 2 * _count_strings(value, DEPTH_MAX) != quotes:
        name = f"`{_find_duplicate_name(body)}`" if len(body) <= DUPLICATE_SEARCH_MAX else "something"
        raise rule_error("body.json", f"The body names {name} twice in one object.")
    return value


def _count_values(text: bytes) -> int:
    """Count the commas and brackets: each value but the first follows one."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _strip_strings(marks: bytes) -> bytes:
    return b"".join(marks.split(b'"')[::2])


def _count_strings(value: Any, depth: int) -> int:
    """Count the strings in a value, names included. Raises ApiError `body.json` if too deep."""
    if isinstance(value, str):
        return 1
    if not isinstance(value, dict | list):
        return 0
    if not depth:
        raise rule_error("body.json", f"The body is more than {DEPTH_MAX} levels deep.")
    if isinstance(value, list):
        return sum([_count_strings(item, depth - 1) for item in value])
    names = len(value)
    for name in [name for name in value if len(name) > NAME_MAX]:
        value[f"{name[:NAME_MAX]}…"] = value.pop(name)  # unknown anyway; each of its issues copies it
    return names + sum([_count_strings(item, depth - 1) for item in value.values()])


def _find_duplicate_name(body: bytes) -> str:
    """Return the first name that occurs twice in one object, by parsing the body again."""
    found: list[str] = []

    def check(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        found.extend(name for number, name in enumerate(names) if name in names[:number])

    json.loads(body, object_pairs_hook=check)
    return found[0][:NAME_MAX]
