"""Sealing of secrets with the master key: nonces, tampering, bound context, wrong keys."""

from __future__ import annotations

import base64
import secrets

import pytest

from socialpub.base.security import crypto
from socialpub.base.security.crypto import MasterKey, SealError, Vault

PLACE = ("account", "secret", "row-1")
SECRET = b"canary of a token"


@pytest.fixture
def vault() -> Vault:
    return Vault([MasterKey(b"k" * 32)], secrets.token_bytes)


def raw(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_each_seal_has_a_nonce_of_its_own(vault: Vault) -> None:
    sealed = [vault.seal(SECRET, PLACE).split(".") for _ in range(2000)]
    assert {(version, key) for version, key, _, _ in sealed} == {("v1", vault.key_id)}
    nonces = {raw(nonce) for _, _, nonce, _ in sealed}
    assert (len(nonces), {len(nonce) for nonce in nonces}) == (2000, {12})
    assert len({data for *_, data in sealed}) == 2000


def test_a_flipped_bit_is_refused_wherever_it_is(vault: Vault) -> None:
    version, key, nonce, data = vault.seal(SECRET, PLACE).split(".")
    whole = raw(nonce) + raw(data)
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        parts = (base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (flipped[:12], flipped[12:]))
        with pytest.raises(SealError):
            vault.open(".".join((version, key, *parts)), PLACE)
    assert vault.open(".".join((version, key, nonce, data)), PLACE) == SECRET


@pytest.mark.parametrize("other", [("user", *PLACE[1:]), ("account", "other", "row-1"), (*PLACE[:2], "row-2")])
def test_two_that_changed_places_are_both_refused(vault: Vault, other: tuple[str, str, str]) -> None:
    for sealed, place in ((vault.seal(SECRET, PLACE), other), (vault.seal(SECRET, other), PLACE)):
        with pytest.raises(SealError):
            vault.open(sealed, place)


def test_another_master_key_opens_nothing(vault: Vault) -> None:
    with pytest.raises(SealError):
        Vault([MasterKey(b"o" * 32)], secrets.token_bytes).open(vault.seal(SECRET, PLACE), PLACE)


def test_a_key_with_one_character_changed_is_none() -> None:
    key = crypto.generate_api_key("svc_live_", secrets.token_bytes)
    assert crypto.is_well_formed_api_key(key, ["svc_live_", "svc_test_"])
    for at in range(len(key)):
        wrong = key[:at] + ("0" if key[at] != "0" else "1") + key[at + 1 :]
        assert not crypto.is_well_formed_api_key(wrong, ["svc_live_", "svc_test_"]), at
