"""Drafts over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.app_server import ApiClient

PATH = "/v1/drafts"


def new_draft(api: ApiClient, **fields: Any) -> dict[str, Any]:
    answer = api.post(PATH, json=fields)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def read_draft(api: ApiClient, draft: str) -> dict[str, Any]:
    answer = api.get(f"{PATH}/{draft}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def tag_of(api: ApiClient, draft: str) -> str:
    return str(api.get(f"{PATH}/{draft}").headers["ETag"])


def seen(api: ApiClient, draft: str) -> dict[str, str]:
    """The header of a client that has just read the draft."""
    return {"If-Match": tag_of(api, draft)}


def change_draft(api: ApiClient, draft: str, **fields: Any) -> httpx.Response:
    return api.patch(f"{PATH}/{draft}", json=fields, headers=seen(api, draft))


def approve_draft(api: ApiClient, draft: str) -> dict[str, Any]:
    answer = api.post(f"{PATH}/{draft}/approve", headers=seen(api, draft))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def approved_draft(api: ApiClient, **fields: Any) -> str:
    """The id of a new draft that is approved."""
    draft = str(new_draft(api, **fields)["id"])
    assert approve_draft(api, draft)["status"] == "approved"
    return draft
