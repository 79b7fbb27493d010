"""Calls of every operation that takes a key, by chance, from the examples in openapi.json."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.app_server import UNKNOWN_ID, ApiClient

Json = dict[str, Any]
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:whe|whd|nch|med|evt)_[0-9A-Za-z]{22}")
ODD_VALUES = (None, "", 0, -1, True, [], {}, "x" * 400, "now")


@dataclass(frozen=True)
class KeyedOperation:
    """An operation that takes an API key. `scope`: the one it needs; None: any key."""

    method: str
    path: str
    scope: str | None
    bodies: tuple[Any, ...]
    is_upload: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def resource(self) -> str:
        """The word of its path that says what it is about."""
        return self.path.split("/")[2]


def find_keyed_operations(document: Json) -> list[KeyedOperation]:
    """The operations with an `apiKey` among the ways of their `security`."""
    found = []
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            for way in entry["security"]:
                if "apiKey" in way:
                    content = entry.get("requestBody", {}).get("content", {})
                    examples = content.get("application/json", {}).get("examples", {})
                    bodies = tuple(example["value"] for example in examples.values())
                    scope = next(iter(way["apiKey"]), None)
                    upload = "multipart/form-data" in content
                    found.append(KeyedOperation(method.upper(), path, scope, bodies, upload))
    return found


def replace_fields(value: Any, fields: Json) -> Any:
    """The same JSON with these values wherever a field has such a name."""
    if isinstance(value, dict):
        return {name: fields[name] if name in fields else replace_fields(part, fields) for name, part in value.items()}
    return [replace_fields(part, fields) for part in value] if isinstance(value, list) else value


@dataclass
class CallGenerator:
    """Calls by chance. Ids that answers show are used in later calls. `soon`: a time that comes at once."""

    operations: list[KeyedOperation]
    dice: random.Random
    accounts: list[str]
    soon: Callable[[], str]
    ids: list[str] = field(default_factory=lambda: [UNKNOWN_ID])

    def make(self, api: ApiClient, count: int) -> Iterator[httpx.Response]:
        """Make so many calls, one after another."""
        likely = [4 if str(each.scope).startswith("posts:") else 1 for each in self.operations]
        for operation in self.dice.choices(self.operations, likely, k=count):
            answer = self._call(api, operation)
            self.ids += [id_ for id_ in _ID.findall(answer.text)[:20] if id_ not in self.ids]
            yield answer

    def _call(self, api: ApiClient, operation: KeyedOperation) -> httpx.Response:
        dice, body = self.dice, None
        if operation.bodies:
            body = self._vary(dice.choice((operation.bodies[0], *operation.bodies)))
        headers = dice.choice(({}, {}, {"Idempotency-Key": str(dice.randrange(50))}, {"Prefer": "respond-async"}))
        upload = {"file": ("a.png", b"\x89PNG\r\n", "image/png")} if operation.is_upload else None
        path = re.sub(r"\{\w+\}", lambda _: dice.choice(self.ids), operation.path)
        return api.request(operation.method, path, json=body, files=upload, headers=headers)

    def _vary(self, body: Any) -> Any:
        """Mostly what would be accepted: an account that is there, and a time that comes; at times anything."""
        dice = self.dice
        body = replace_fields(
            body, {"accountId": dice.choice(self.accounts), "scheduledAt": self.soon(), "media": [], "profileId": None}
        )
        body = {name: part for name, part in body.items() if name not in ("profileId", "media")}
        if "text" in body:
            body["text"] = f"generated {dice.randrange(10**6)}"
        if dice.random() < 0.3:
            body.pop("scheduledAt", None)
        if dice.random() < 0.3:
            body[dice.choice((*body, "publishNow", "dryRun"))] = dice.choice(ODD_VALUES)
        return body
