"""Validation of HTTP responses against the OpenAPI document."""

from __future__ import annotations

import json
import re
import typing
from typing import Any

import httpx

from socialpub.base.security.crypto import digest
from socialpub.domain.schemas.errors import PLATFORM_RESPONSES
from socialpub.store.database import Tx
from socialpub.store.schema.models import Post, Session, User
from socialpub.web.openapi.schemas import model_name
from tests.support.app_server import AppServer, Person
from tests.support.openapi_document import (
    close_schema,
    documented_errors,
)

Json = dict[str, Any]


class ResponseJudge:
    """Holds answers to the document of the server that gave them, and remembers which it has seen."""

    def __init__(self, server: AppServer) -> None:
        self.document = close_schema(server.api().get("/openapi.json").json())
        self.seen: set[tuple[str, int]] = set()
        self.details: set[str] = set()

    def __call__(self, response: httpx.Response, *, status: int) -> Any:
        assert response.status_code == status, response.text
        name, operation = self._operation(response.request)
        self.seen.add((name, status))
        assert str(status) in operation["responses"], f"{name} does not document {status}"
        answer = operation["responses"][str(status)]
        assert response.headers["Content-Type"] in answer["content"]
        assert documented_errors(answer["content"]["application/json"]["schema"], response.json(), self.document) == []
        self._headers(answer["headers"], response.headers)
        if status >= 400:
            self._named(answer["x-errors"], response.json()["error"])
            self._typed(response.json()["error"])
        return response.json()

    def _operation(self, request: httpx.Request) -> tuple[str, Json]:
        for path, methods in sorted(self.document["paths"].items(), key=lambda entry: "{" in entry[0]):
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.url.path) and request.method.lower() in methods:
                return f"{request.method} {path}", methods[request.method.lower()]
        raise AssertionError(f"{request.method} {request.url.path} is not in the document")

    def _headers(self, documented: Json, sent: httpx.Headers) -> None:
        for name, ref in documented.items():
            header = self.document["components"]["headers"][ref["$ref"].rpartition("/")[2]]
            assert name in sent or not header["required"], name
            if name in sent:
                value = int(sent[name]) if header["schema"]["type"] == "integer" else sent[name]
                assert documented_errors(header["schema"], value, self.document) == []

    def _named(self, documented: list[Json], error: Json) -> None:
        """The code stands there, and the rule unless it is a path in the request or a platform's own."""
        assert error["code"] in {entry["code"] for entry in documented}, error
        if error["code"] not in ("validation_failed", "preflight_failed") and "rule" in error:
            assert error["rule"] in {entry.get("rule") for entry in documented}, error

    def _typed(self, error: Json) -> None:
        """What `platformResponse` holds is of the type that the document names for the rule, or for the code."""
        name = next((name for name in (error.get("rule"), error["code"]) if name in PLATFORM_RESPONSES), None)
        if name is None or "platformResponse" not in error:  # a rule of the service that says all in words
            return
        self.details.add(name)
        shape = PLATFORM_RESPONSES[name]
        inner = typing.get_args(shape)
        (model,) = inner or (shape,)
        schema = {"$ref": f"#/components/schemas/{model_name(model)}"}
        whole = {"type": "array", "items": schema, "minItems": 1} if inner else schema
        assert documented_errors(whole, error["platformResponse"], self.document) == []


def sign_in(server: AppServer, person: Person) -> dict[str, str]:
    """The headers of a signed-in owner of the person's organization."""
    now, user = server.clock.now_ms(), server.service.runtime.ids.uuid()

    def write(tx: Tx) -> None:
        User.insert(
            id=user, organization=person.organization, email="a@x.test", role="owner", password="", created_at=now
        ).execute()
        Session.insert(
            id=digest("cookie"),
            user=user,
            csrf="csrf",
            created_at=now,
            seen_at=now,
            ends_at=now + 3_600_000,
            proved_at=now,
        ).execute()

    server.service.write(write).result()
    return {"Cookie": "socialpub_session=cookie", "X-CSRF-Token": "csrf"}


def reject_post(server: AppServer, person: Person) -> str:
    """A post that the platform refuses."""
    return spoil_post(server, person, "rejected", {"code": "platform_rejected", "message": "No.", "rule": None})


def lose_post(server: AppServer, person: Person) -> str:
    """A post of which nobody knows whether it is live."""
    rule = "publish.outcome_unknown"
    error = {"code": "platform_unavailable", "message": "Lost.", "rule": rule, "ruleUrl": f"http://x/docs/rules/{rule}"}
    return spoil_post(server, person, "failed", error)


def spoil_post(server: AppServer, person: Person, status: str, error: Json) -> str:
    body = {"targets": [{"accountId": person.bluesky}], "text": f"To be {status}."}
    post = str(person.api.publish(body).json()["results"][0]["postId"])
    shown = {name: value for name, value in error.items() if value is not None}
    shown["docUrl"] = f"http://x/docs/errors/{error['code']}"
    columns = {"status": status, "error": json.dumps(shown), "error_code": error["code"]}
    server.service.write(lambda tx: Post.update(**columns).where(Post.id == post).execute()).result()
    return post
