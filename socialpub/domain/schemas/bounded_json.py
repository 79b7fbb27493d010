"""JSON request bodies: counted before they are parsed, so that no body makes more than some thousand objects.

orjson parses: 16 MiB of any characters take it 40 ms at most, in which no other thread runs. The standard library's
reader, which would tell of names that stand twice, and pydantic's take two to seven times that.
"""

from __future__ import annotations

import codecs
import json
from typing import Any

import orjson

from socialpub.base.errors import rule_error

VALUES_MAX = 15_000  # 25 targets with all that they may have come to 5,000
DEPTH_MAX = 32
ESCAPES_MAX = 2_500_000  # 25 texts of 100,000 characters; more of them would keep the interpreter for 100 ms
DUPLICATE_SEARCH_MAX = 64 * 1024  # bytes of a body of which is told what stands twice in it
NAME_MAX = 100  # characters of a name that are shown


def load(body: bytes) -> Any:
    """Return the value of a body; ApiError `body.json`, also for what is too much and for a name that stands twice.

    A byte order mark before it is skipped (RFC 8259 8.1): .NET, PowerShell and SharePoint write one. Which of two
    values of the same name is meant is not guessed: orjson keeps one of them, so it has read fewer strings than are
    written, each between two quotation marks.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    if body.count(b"\\") > ESCAPES_MAX:
        raise rule_error("body.json", f"The body has more than {ESCAPES_MAX:,} backslashes.")
    marks = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of `"` begins and ends strings
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
    """Count the strings in a value, names included; ApiError `body.json` for one that is nested too deeply."""
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
        value[f"{name[:NAME_MAX]}…"] = value.pop(name)  # no field has one: it is copied with each issue of it
    return names + sum([_count_strings(item, depth - 1) for item in value.values()])


def _find_duplicate_name(body: bytes) -> str:
    """Return the first name that stands twice in one object, of a body that is quickly read again."""
    found: list[str] = []

    def check(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        found.extend(name for number, name in enumerate(names) if name in names[:number])

    json.loads(body, object_pairs_hook=check)
    return found[0][:NAME_MAX]
