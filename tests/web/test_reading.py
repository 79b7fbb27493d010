"""What a GET costs: counted, since times depend on the machine."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from tests.counting import Counting, Work
from tests.soak.world import wait_for
from tests.web.world import World


@pytest.mark.parametrize(
    "path", ["/v1/posts", "/v1/posts?limit=2", "/v1/posts?profileId={profile}", "/v1/posts/{post}"]
)
def test_a_read_is_one_row_of_one_statement_on_the_loop(counting: Counting, world: World, path: str) -> None:
    """No thread is waited for, the query builder makes no text, and the key is known by heart."""
    for number in range(3):
        post = world.scheduled(text=f"Number {number}")
    path = path.format(post=post, profile=world.alice.profile)
    assert world.alice.api.get(path).status_code == 200

    def work() -> Work:
        with counting.while_() as done:
            assert world.alice.api.get(path).status_code == 200
        return done.asked

    profile = "profileId" in path  # whether it is one of the organization's is asked first
    assert wait_for(lambda: work().statements == 1 + profile, 30)  # nothing else was committed meanwhile
    asked = work()
    assert (asked.handed, asked.built) == (0, []), asked
    assert asked.steps == 2 * asked.statements, asked


def test_a_key_that_is_known_by_heart_is_revoked_at_once(world: World) -> None:
    """By another process, of which this one hears nothing."""
    get = lambda: world.alice.api.get("/v1/posts").status_code  # noqa: E731
    with contextlib.closing(sqlite3.connect(world.server.home / "socialpub.db", isolation_level=None)) as other:
        for _ in range(20):
            assert [get(), get(), get()] == [200, 200, 200]
            other.execute("UPDATE api_key SET revoked_at = 1 WHERE id = ?", (world.alice.key_id,))
            assert get() == 401
            other.execute("UPDATE api_key SET revoked_at = NULL WHERE id = ?", (world.alice.key_id,))
