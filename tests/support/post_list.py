"""Rows for the post list, and readers of its pages over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support import post_rows as kit
from tests.support.app_server import AppServer, Person, error_of


def insert_rows(server: AppServer, person: Person, *rows: dict[str, Any]) -> list[str]:
    """The ids of new posts of a person; each row's defaults are in the kit."""
    where = {"organization": person.organization, "profile": person.profile, "account": person.bluesky}
    return [str(row["id"]) for row in kit.insert_posts(server.service, [where | row for row in rows])]


def list_posts(person: Person, query: str = "") -> list[str]:
    """The ids of one page."""
    answer = person.api.get(f"/v1/posts?{query}")
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"data", "nextCursor"}
    return [post["id"] for post in answer.json()["data"]]


def list_pages(person: Person, query: str) -> Iterator[list[str]]:
    """Page after page, to the end."""
    cursor = ""
    while True:
        answer = person.api.get(f"/v1/posts?{query}{cursor}").json()
        yield [post["id"] for post in answer["data"]]
        if answer["nextCursor"] is None:
            return
        cursor = f"&cursor={answer['nextCursor']}"


def refused_query(person: Person, query: str) -> str:
    """The rule of the 400."""
    answer = person.api.get(f"/v1/posts?{query}")
    assert answer.status_code == 400, answer.text
    assert error_of(answer)["code"] == "validation_failed"
    return str(error_of(answer)["rule"])
