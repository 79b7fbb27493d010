"""Requests that come together are written together: a slow disk is waited for once for all of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from socialpub.store.locks import held, open_lock, write_lock_path
from socialpub.store.models import ApiKey
from tests.counting import Counting
from tests.kit import Api, Server, breathe
from tests.web.world import World

TOGETHER = 30  # as many as are written at once


@pytest.mark.parametrize("organizations", [1, 2])
def test_many_batches_are_one_commit(organizations: int, counting: Counting, server: Server, world: World) -> None:
    """While the disk is busy with one transaction; of one organization as of several."""
    people = [world.alice, world.charlie][:organizations]

    def publish(number: int) -> int:
        who = people[number % organizations]
        body = {"targets": [{"accountId": who.bluesky}], "text": f"number {number}", "scheduledAt": world.soon()}
        with Api(server.url, who.key) as api:
            return api.publish(body).status_code

    for who in people:
        assert who.api.get("/v1/posts").status_code == 200
        while server.rows(ApiKey, organization=who.organization)[0]["last_used_at"] is None:
            breathe()  # it is noted that the key was used, and not again for a while
    database = server.service.db.path
    with counting.while_() as done, ThreadPoolExecutor(TOGETHER) as clients:
        with open_lock(write_lock_path(database)) as lock, held(lock):
            answers = [clients.submit(publish, number) for number in range(TOGETHER)]
            while done.asked.writes < TOGETHER:
                breathe()
        assert [answer.result() for answer in answers] == [202] * TOGETHER
    assert done.asked.commits <= TOGETHER // 5, done.asked
    assert len(server.rows()) == TOGETHER
