"""Fixtures for tests of connectors against their platform's fake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from socialpub.base import http as outbound


@pytest.fixture
def client() -> Iterator[outbound.HttpClient]:
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http_client:
        yield http_client
