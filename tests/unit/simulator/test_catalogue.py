"""Common properties of every fake platform in the simulator's catalogue."""

from __future__ import annotations

import re

import pytest

from socialpub.simulator.registry import FAKES
from socialpub.simulator.state import SimulatorState
from tests.support.fixed_clock import FixedClock


@pytest.fixture
def lab() -> SimulatorState:
    return SimulatorState(FixedClock(), FAKES)


@pytest.mark.parametrize("name", FAKES)
def test_a_fake_goes_by_the_name_in_the_catalogue(lab: SimulatorState, name: str) -> None:
    assert lab.fake(name).name == name


@pytest.mark.parametrize("name", FAKES)
def test_operations_have_names_and_addresses_of_their_own(lab: SimulatorState, name: str) -> None:
    operations = lab.fake(name).operations()
    addresses = [(verb, re.sub("<.*?>", "<>", op.path)) for op in operations for verb in op.methods]
    assert len({op.name for op in operations}) == len(operations)
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("name", FAKES)
def test_every_error_has_the_platforms_own_form(lab: SimulatorState, name: str, status: int) -> None:
    answer = lab.fake(name).refusal(status, None)
    assert (answer.status, len(answer.content()) > 10) == (status, True)


@pytest.mark.parametrize("name", FAKES)
def test_an_account_that_cannot_be_made_is_a_value_error(lab: SimulatorState, name: str) -> None:
    with pytest.raises(ValueError):
        lab.add_account(name, nonsense=1)


def test_an_unknown_platform_is_a_value_error(lab: SimulatorState) -> None:
    with pytest.raises(ValueError, match="there is no fake platform 'myspace'"):
        lab.add_account("myspace")


@pytest.mark.parametrize("name", FAKES)
def test_tokens_of_an_unknown_account_cannot_be_ended(lab: SimulatorState, name: str) -> None:
    with pytest.raises(ValueError):
        lab.end_tokens(name, "nobody")
