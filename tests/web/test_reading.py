"""What a GET costs: counted, since times depend on the machine."""

from __future__ import annotations

import pytest

from tests.counting import Counting
from tests.web.world import World


@pytest.mark.parametrize(
    "path", ["/v1/posts", "/v1/posts?limit=2", "/v1/posts?profileId={profile}", "/v1/posts/{post}"]
)
def test_a_read_is_one_row_of_one_statement_on_the_loop(counting: Counting, world: World, path: str) -> None:
    """Besides who asks: no thread is waited for, and the query builder makes no text."""
    for number in range(3):
        post = world.scheduled(text=f"Number {number}")
    path = path.format(post=post, profile=world.alice.profile)
    assert world.alice.api.get(path).status_code == 200
    with counting.while_() as done:
        assert world.alice.api.get(path).status_code == 200
    work = done.asked
    profile = "profileId" in path  # whether it is one of the organization's is asked first
    assert (work.handed, work.built, work.statements) == (0, [], 2 + profile), done
    assert work.steps == 2 * work.statements, done
