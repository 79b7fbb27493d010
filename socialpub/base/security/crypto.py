"""Sealed secrets, API keys and signatures: pure functions over bytes, no state but the vault's keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE62_PAIRS = [first + second for first in BASE62 for second in BASE62]
API_KEY_RANDOM_CHARS = 43
API_KEY_CHECKSUM_CHARS = 6
MASTER_KEYS_MAX = 8  # in a key file
NONCE_POSITION, NONCE_CHARS = 13, 16  # in a sealed value, counted from 1 as SQL does: v1.<8>.<16>.
Entropy = Callable[[int], bytes]


class SealError(Exception):
    """A sealed value cannot be opened: another key, another row, or tampered with."""


def encode_base62(number: int, width: int) -> str:
    """`number` in base62 (0-9A-Za-z), zero-padded to `width` characters."""
    text = ""
    while number:
        number, four = divmod(number, 14_776_336)  # 62 ** 4: a fourth of the divisions of a long number
        text = f"{_BASE62_PAIRS[four // 3844]}{_BASE62_PAIRS[four % 3844]}{text}"
    return text.lstrip("0").rjust(width, "0")


def decode_base62(text: str) -> int | None:
    """The number that `encode_base62` wrote so; None for a text with other characters."""
    number = 0
    for character in text:
        digit = BASE62.find(character)
        if digit < 0:
            return None
        number = number * 62 + digit
    return number


@dataclass(frozen=True)
class MasterKey:
    """32 random bytes; its id is the first 8 hex digits of their SHA-256."""

    raw: bytes

    @property
    def id(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()[:8]


def parse_master_key(text: str) -> MasterKey:
    """A master key from its base64 form; ValueError for anything but 32 bytes (passphrases included)."""
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except ValueError as error:
        raise ValueError("a master key is 32 random bytes in base64") from error
    if len(raw) != 32:
        raise ValueError(f"a master key is 32 random bytes in base64, not {len(raw)}")
    return MasterKey(raw)


def parse_master_keys(text: str) -> list[MasterKey]:
    """The master keys of a key file, one a line: the first seals, every key opens. ValueError as of each."""
    lines = text.split()
    if len(lines) > MASTER_KEYS_MAX:
        raise ValueError(f"a key file holds at most {MASTER_KEYS_MAX} master keys")
    return [parse_master_key(line) for line in lines or [""]]


def format_master_keys(keys: Sequence[MasterKey]) -> bytes:
    """The content of a key file, as `parse_master_keys` reads it."""
    return "".join(base64.b64encode(key.raw).decode() + "\n" for key in keys).encode()


def get_nonce(sealed: str) -> str:
    """What of a sealed value stays when another key seals it anew, and tells it from every other one."""
    return sealed[NONCE_POSITION - 1 : NONCE_POSITION - 1 + NONCE_CHARS]


class Vault:
    """Seals and opens secrets with AES-256-GCM: one key seals (the first, or what `follow` says), every key opens.

    A sealed value is `v1.<key id>.<nonce>.<ciphertext>` (base64url). `place` (table, column, row id) is bound in as
    associated data, so that a value moved to another row does not open. `reread` gives the keys that are there now:
    they are asked for again where one is needed that is not held, since they may be changed beside a running server.
    """

    def __init__(
        self, keys: Sequence[MasterKey], entropy: Entropy, reread: Callable[[], Sequence[MasterKey]] | None = None
    ) -> None:
        if not keys:
            raise ValueError("a vault needs at least one master key")
        self._keys, self._first, self.newest = _make_ciphers(keys), keys[0].id, keys[0].id
        self._entropy, self._reread = entropy, reread
        self._signing = hmac.digest(keys[-1].raw, b"socialpub signing v1", "sha256")

    @property
    def key_id(self) -> str:
        return self._first

    @property
    def signing(self) -> bytes:
        """What `sign` signs with; until `sign_with` says otherwise, it is made of the oldest master key."""
        return self._signing

    def holds(self, key_id: str) -> bool:
        return key_id in self._keys

    def follow(self, key_id: str) -> None:
        """Seal with this key from now on. SealError where it is not there; what reading the keys again raises."""
        if key_id != self._first:
            self._find(key_id)
            self._first = key_id

    def sign_with(self, secret: bytes) -> None:
        self._signing = secret

    def seal(self, secret: bytes, place: tuple[str, str, str]) -> str:
        return self._sealed(self._entropy(12), secret, place)

    def open(self, sealed: str, place: tuple[str, str, str]) -> bytes:
        """The secret; SealError when the key is not held, or the value is not the one sealed for `place`."""
        try:
            version, key_id, nonce, data = sealed.split(".")
            if version != "v1":
                raise SealError("an unknown version of sealed value")
            return self._find(key_id).decrypt(_decode_base64(nonce), _decode_base64(data), _encode_location(place))
        except OSError as error:
            raise SealError("the master keys cannot be read") from error
        except (ValueError, InvalidTag) as error:
            raise SealError("a sealed value does not belong to its row, or was changed") from error

    def seal_anew(self, sealed: str, place: tuple[str, str, str]) -> str:
        """The same secret under the key that seals now, with the nonce that it had; SealError as `open`.

        No two keys share their nonces, and whoever has seen the old value knows the new one by it (`get_nonce`).
        """
        return self._sealed(_decode_base64(sealed.split(".")[2]), self.open(sealed, place), place)

    def sign(self, purpose: str, data: bytes) -> bytes:
        """A 32-byte MAC for things that come back to us (cursors, media addresses)."""
        return hmac.digest(self._signing, purpose.encode() + b"\0" + data, "sha256")

    def _sealed(self, nonce: bytes, secret: bytes, place: tuple[str, str, str]) -> str:
        key_id = self._first
        encrypted = self._keys[key_id].encrypt(nonce, secret, _encode_location(place))
        return f"v1.{key_id}.{_encode_base64(nonce)}.{_encode_base64(encrypted)}"

    def _find(self, key_id: str) -> AESGCM:
        if key_id not in self._keys and self._reread:
            self._keys = self._keys | _make_ciphers(self._reread())
        if key_id not in self._keys:
            raise SealError("sealed with a master key that this server does not have")
        return self._keys[key_id]


def _make_ciphers(keys: Sequence[MasterKey]) -> dict[str, AESGCM]:
    return {key.id: AESGCM(key.raw) for key in keys}


def _encode_location(place: tuple[str, str, str]) -> bytes:
    return "\0".join(place).encode()


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def is_equal(a: bytes, b: bytes) -> bool:
    """Equal, compared in constant time."""
    return hmac.compare_digest(a, b)


def digest(secret: str) -> str:
    """SHA-256 of a high-entropy secret's bytes, in hex: what is stored in its place."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def generate_api_key(prefix: str, entropy: Entropy) -> str:
    """`prefix` + 43 random base62 characters + 6 base62 characters of their CRC32."""
    body = "".join(BASE62[byte % 62] for byte in _draw_unbiased(entropy, API_KEY_RANDOM_CHARS))
    return prefix + body + encode_base62(zlib.crc32(body.encode("ascii")), API_KEY_CHECKSUM_CHARS)


def _draw_unbiased(entropy: Entropy, count: int) -> bytes:
    kept = b""
    while len(kept) < count:
        kept += bytes(byte for byte in entropy(count * 2) if byte < 248)  # 248 = 4 × 62
    return kept[:count]


def is_well_formed_api_key(key: str, prefixes: Sequence[str]) -> bool:
    """Prefix, length, alphabet and checksum are right: a mistyped key is told without a look-up."""
    prefix = next((p for p in prefixes if key.startswith(p)), None)
    if prefix is None or not key.isascii():
        return False
    body, check = key[len(prefix) : -API_KEY_CHECKSUM_CHARS], key[-API_KEY_CHECKSUM_CHARS:]
    if len(body) != API_KEY_RANDOM_CHARS or any(char not in BASE62 for char in body):
        return False
    return check == encode_base62(zlib.crc32(body.encode("ascii")), API_KEY_CHECKSUM_CHARS)
