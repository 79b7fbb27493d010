"""Every writable field of a PATCH accepts the value that a GET returned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.app_server import AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.openapi_document import DOCUMENT

SCHEMAS = DOCUMENT["components"]["schemas"]
LEFT_OUT = {
    ("/v1/notification-channels/{id}", "to"),  # shown without its secrets: it is sent whole, or not at all
}
"""What cannot be sent back as it is read."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def takes_null(schema: dict[str, Any]) -> bool:
    kinds = [schema.get("type"), *(part.get("type") for part in schema.get("anyOf", schema.get("oneOf", ())))]
    return any(kind == "null" or (isinstance(kind, list) and "null" in kind) for kind in kinds)


def patched() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """(path, field, its schema in the request, its schema in the answer) of what a PATCH takes and answers."""
    for path, operations in DOCUMENT["paths"].items():
        if (operation := operations.get("patch")) is None:
            continue
        sent = resolved(operation["requestBody"]["content"]["application/json"]["schema"])["properties"]
        told = resolved(operation["responses"]["200"]["content"]["application/json"]["schema"])["properties"]
        yield from ((path, name, sent[name], told[name]) for name in sent.keys() & told.keys())


def test_what_a_patch_answers_as_null_it_takes_as_null() -> None:
    found = [*patched()]
    assert len({path for path, *_ in found}) >= 3
    refused = [(path, name) for path, name, sent, told in found if takes_null(told) and not takes_null(sent)]
    # When an immediate post was to be published is never, and it cannot be moved.
    assert [each for each in refused if each[1] != "scheduledAt"] == []


def test_no_request_offers_null_for_what_is_never_answered_as_null() -> None:
    assert [(path, name) for path, name, sent, told in patched() if takes_null(sent) and not takes_null(told)] == []


@pytest.mark.parametrize("description", ["for the shop", None])
def test_every_writable_field_is_taken_as_it_was_read(
    server: AppServer, alice: Person, description: str | None
) -> None:
    hook = {"url": "https://example.com/hook", "description": description}
    channel = {"to": {"kind": "ntfy", "topic": "posts"}, "description": description}
    made = {
        "/v1/webhook-endpoints/{id}": alice.api.post("/v1/webhook-endpoints", json=hook),
        "/v1/notification-channels/{id}": alice.api.post("/v1/notification-channels", json=channel),
    }
    here = {path: f"{path.partition('{')[0]}{answer.json()['id']}" for path, answer in made.items()}
    here["/v1/profiles/{id}"] = f"/v1/profiles/{alice.profile}"
    browser = sign_in(server, alice.organization)
    for path, address in here.items():
        listed = browser.get(address.rpartition("/")[0]).json()["data"]
        (before,) = [row for row in listed if row["id"] == address.rpartition("/")[2]]
        writable = {name: before[name] for p, name, *_ in patched() if p == path and (p, name) not in LEFT_OUT}
        assert writable, path
        answer = (browser if "profiles" in path else alice.api).patch(address, json=writable)
        assert answer.status_code == 200, (path, answer.text)
        assert {name: answer.json()[name] for name in before if name != "updatedAt"} == {
            name: value for name, value in before.items() if name != "updatedAt"
        }


def test_null_clears_a_description(alice: Person) -> None:
    made = alice.api.post(
        "/v1/webhook-endpoints", json={"url": "https://example.com/hook", "description": "old"}
    ).json()
    address = f"/v1/webhook-endpoints/{made['id']}"
    assert alice.api.patch(address, json={"active": True}).json()["description"] == "old"
    assert alice.api.patch(address, json={"description": None}).json()["description"] is None
    channel = {"to": {"kind": "ntfy", "topic": "posts"}, "description": "old"}
    made = alice.api.post("/v1/notification-channels", json=channel).json()
    address = f"/v1/notification-channels/{made['id']}"
    assert alice.api.patch(address, json={"active": True}).json()["description"] == "old"
    assert alice.api.patch(address, json={"description": None}).json()["description"] is None
