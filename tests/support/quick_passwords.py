"""Passwords hashed in no time, in all tests but those that take `real_passwords`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from socialpub.domain.identity import users

HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
NOBODYS = HASHER.hash("not the password of any user")
GET_REAL_HASHER, MAKE_REAL_DUMMY_HASH = users._get_hasher, users._make_dummy_hash


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Each hash takes as long as most tests; a real one is verified as it says itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "_get_hasher", lambda: HASHER)
        patch.setattr(users, "_make_dummy_hash", lambda: NOBODYS)
        yield


@pytest.fixture
def real_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test is about what a hash costs."""
    monkeypatch.setattr(users, "_get_hasher", GET_REAL_HASHER)
    monkeypatch.setattr(users, "_make_dummy_hash", MAKE_REAL_DUMMY_HASH)
