"""Rows read by id, compared with peewee's."""

from __future__ import annotations

import pytest

from socialpub.store.schema.models import TABLES, Attempt, Post, find_row, get_row
from tests.support.media_files import picture
from tests.support.request_cast import RequestCast


def test_every_row_is_the_same_by_its_id(world: RequestCast) -> None:
    assert world.alice.api.post("/v1/media", files={"file": ("a.jpg", picture(), "image/jpeg")}).status_code == 201
    posted = world.alice.api.post("/v1/posts", json=world.body(), headers={"Idempotency-Key": "one"})
    assert posted.status_code == 200
    world.scheduled()
    seen = set()
    for model in TABLES:
        if "id" not in model._meta.fields or model is Attempt:  # nobody asks for an attempt by its id: no index has it
            continue
        for row in world.server.rows(model):
            found = world.server.service.read(lambda model=model, id=row["id"]: find_row(model, id)).result()
            assert found == row
            assert [type(value) for value in found.values()] == [type(value) for value in row.values()]
            seen.add(model._meta.table_name)
    assert {"post", "batch", "account", "intent", "organization", "media", "instance"} <= seen


def test_a_row_that_is_not_there(world: RequestCast) -> None:
    read = world.server.service.read
    assert read(lambda: find_row(Post, "none")).result() is None
    with pytest.raises(Post.DoesNotExist):
        read(lambda: get_row(Post, "none")).result()
