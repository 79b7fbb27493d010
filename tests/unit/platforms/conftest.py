"""Fixtures for tests of connectors against their platform's fake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from socialpub.base import http as outbound
from socialpub.simulator.server import SimulatorThread
from tests.support.fixed_clock import FixedClock
from tests.support.platforms.post_kinds import ChangingClient, KindCase, serving_media


@pytest.fixture
def client() -> Iterator[outbound.HttpClient]:
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http_client:
        yield http_client


@pytest.fixture(scope="module")
def served_media(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a web server with an image and a video, and its folder."""
    with serving_media(tmp_path_factory.mktemp("media")) as served:
        yield served


@pytest.fixture
def make_case(
    simulator: SimulatorThread, clock: FixedClock, client: outbound.HttpClient, served_media: tuple[str, Path]
) -> Callable[[str, str], KindCase]:
    """Return a case of a platform and a kind of post."""
    return lambda name, kind: KindCase(name, kind, simulator, clock, ChangingClient(client), served_media)
