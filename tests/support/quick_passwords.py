"""Passwords hashed in no time; `tests/api/identity/test_sign_in.py` is about real hashes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from socialpub.domain.identity import users

HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
NOBODYS = HASHER.hash("not the password of any user")


@pytest.fixture(scope="module", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Each hash takes as long as most tests; a real one is verified as it says itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "_get_hasher", lambda: HASHER)
        patch.setattr(users, "_make_dummy_hash", lambda: NOBODYS)
        yield
