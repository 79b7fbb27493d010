"""Encryption of secrets, API keys and signatures.

Pure functions over bytes; only the vault has state.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
API_KEY_RANDOM_CHARS = 43
API_KEY_CHECKSUM_CHARS = 6
_API_KEY_TAIL = re.compile(rf"([0-9A-Za-z]{{{API_KEY_RANDOM_CHARS}}})([0-9A-Za-z]{{{API_KEY_CHECKSUM_CHARS}}})")
MASTER_KEYS_MAX = 8  # in a key file
NONCE_POSITION, NONCE_CHARS = 13, 16  # in an encrypted value, counted from 1 as in SQL: v1.<8>.<16>.
Entropy = Callable[[int], bytes]


class SealError(Exception):
    """An encrypted value cannot be decrypted: another key, another row, or tampering."""


def encode_base62(number: int, width: int) -> str:
    """Return `number` in base62 (0-9A-Za-z), zero-padded to `width` characters."""
    text = ""
    while number:
        number, digit = divmod(number, 62)
        text = BASE62[digit] + text
    return text.rjust(width, "0")


def decode_base62(text: str) -> int | None:
    """Return the number that `encode_base62` encoded; None for a text with other characters."""
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
    """Return a master key from its base64 form; raise ValueError for anything but 32 bytes."""
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except ValueError as error:
        raise ValueError("a master key is 32 random bytes in base64") from error
    if len(raw) != 32:
        raise ValueError(f"a master key is 32 random bytes in base64, not {len(raw)}")
    return MasterKey(raw)


def parse_master_keys(text: str) -> list[MasterKey]:
    """Return the master keys of a key file, one per line: the first encrypts, all decrypt.

    Raise ValueError if one is malformed, or if there are too many.
    """
    lines = text.split()
    if len(lines) > MASTER_KEYS_MAX:
        raise ValueError(f"a key file holds at most {MASTER_KEYS_MAX} master keys")
    return [parse_master_key(line) for line in lines or [""]]


def format_master_keys(keys: Sequence[MasterKey]) -> bytes:
    """Return the content of a key file, which `parse_master_keys` reads."""
    return "".join(base64.b64encode(key.raw).decode() + "\n" for key in keys).encode()


def get_nonce(sealed: str) -> str:
    """Return the nonce of an encrypted value, which identifies the secret.

    Re-encryption preserves it.
    """
    return sealed[NONCE_POSITION - 1 : NONCE_POSITION - 1 + NONCE_CHARS]


class Vault:
    """Encrypts and decrypts secrets with AES-256-GCM: one key encrypts, all keys decrypt.

    An encrypted value is `v1.<key id>.<nonce>.<ciphertext>` (base64url). `location` (table, column, row id) is the
    associated data, so that a value moved to another row cannot be decrypted. `reread` returns the current keys: it is
    called when an unknown key is needed, since a command may change the key file while the server runs.
    """

    def __init__(
        self, keys: Sequence[MasterKey], entropy: Entropy, reread: Callable[[], Sequence[MasterKey]] | None = None
    ) -> None:
        if not keys:
            raise ValueError("a vault needs at least one master key")
        self._keys, self._current_id, self.newest = _make_ciphers(keys), keys[0].id, keys[0].id
        self._entropy, self._reread = entropy, reread
        self._signing = hmac.digest(keys[-1].raw, b"socialpub signing v1", "sha256")

    @property
    def key_id(self) -> str:
        return self._current_id

    @property
    def signing(self) -> bytes:
        """The secret of `sign`: derived from the oldest master key unless `sign_with` sets another."""
        return self._signing

    def holds(self, key_id: str) -> bool:
        return key_id in self._keys

    def use_key(self, key_id: str) -> None:
        """Encrypt with this key from now on.

        Raise SealError if it is missing, or the error of rereading the keys.
        """
        if key_id != self._current_id:
            self._get_cipher(key_id)
            self._current_id = key_id

    def sign_with(self, secret: bytes) -> None:
        self._signing = secret

    def seal(self, secret: bytes, location: tuple[str, str, str]) -> str:
        return self._encrypt(self._entropy(12), secret, location)

    def open(self, sealed: str, location: tuple[str, str, str]) -> bytes:
        """Return the secret.

        Raise SealError if the key is missing, or the value is not the one encrypted for `location`.
        """
        try:
            version, key_id, nonce, data = sealed.split(".")
            if version != "v1":
                raise SealError("an unknown version of encrypted value")
            return self._get_cipher(key_id).decrypt(
                decode_base64url(nonce), decode_base64url(data), _encode_location(location)
            )
        except OSError as error:
            raise SealError("the master keys cannot be read") from error
        except (ValueError, InvalidTag) as error:
            raise SealError("an encrypted value does not belong to its row, or was changed") from error

    def reseal(self, sealed: str, location: tuple[str, str, str]) -> str:
        """Re-encrypt a secret with the current key and its old nonce.

        Raise SealError as `open` does. Nonces are used once per key, and the nonce identifies the secret across keys
        (`get_nonce`).
        """
        return self._encrypt(decode_base64url(sealed.split(".")[2]), self.open(sealed, location), location)

    def sign(self, purpose: str, data: bytes) -> bytes:
        """Return a 32-byte MAC for data that clients send back (cursors, media URLs)."""
        return hmac.digest(self._signing, purpose.encode() + b"\0" + data, "sha256")

    def _encrypt(self, nonce: bytes, secret: bytes, location: tuple[str, str, str]) -> str:
        key_id = self._current_id
        encrypted = self._keys[key_id].encrypt(nonce, secret, _encode_location(location))
        return f"v1.{key_id}.{encode_base64url(nonce)}.{encode_base64url(encrypted)}"

    def _get_cipher(self, key_id: str) -> AESGCM:
        if key_id not in self._keys and self._reread:
            self._keys = self._keys | _make_ciphers(self._reread())
        if key_id not in self._keys:
            raise SealError("encrypted with a master key that this server does not have")
        return self._keys[key_id]


def _make_ciphers(keys: Sequence[MasterKey]) -> dict[str, AESGCM]:
    return {key.id: AESGCM(key.raw) for key in keys}


def _encode_location(location: tuple[str, str, str]) -> bytes:
    return "\0".join(location).encode()


def encode_base64url(data: bytes) -> str:
    """Encode in base64url without padding (RFC 7515, 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Decode what `encode_base64url` returns. Raises ValueError for anything else."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def hash_base64url(text: str) -> str:
    """Return the SHA-256 of a text in base64url: a PKCE challenge S256 (RFC 7636, 4.2)."""
    return encode_base64url(hashlib.sha256(text.encode()).digest())


def is_equal(a: bytes, b: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(a, b)


def digest(secret: str) -> str:
    """Return the SHA-256 of a high-entropy secret in hex, which is stored instead of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def generate_api_key(prefix: str, entropy: Entropy) -> str:
    """Return `prefix`, 43 random base62 characters, and 6 base62 characters of their CRC32."""
    body = generate_base62(entropy)
    return prefix + body + _checksum(body)


def generate_base62(entropy: Entropy) -> str:
    """Return 43 random base62 characters, 256 bits."""
    return "".join(BASE62[byte % 62] for byte in _draw_unbiased(entropy, API_KEY_RANDOM_CHARS))


def _draw_unbiased(entropy: Entropy, count: int) -> bytes:
    drawn = b""
    while len(drawn) < count:
        drawn += bytes(byte for byte in entropy(count * 2) if byte < 248)  # 248 = 4 × 62
    return drawn[:count]


def is_well_formed_api_key(key: str, prefixes: Sequence[str]) -> bool:
    """Return whether prefix, length, alphabet and checksum of a key are right.

    That rejects typos without a look-up.
    """
    prefix = next((p for p in prefixes if key.startswith(p)), None)
    found = _API_KEY_TAIL.fullmatch(key, len(prefix)) if prefix is not None else None
    return found is not None and found[2] == _checksum(found[1])


def _checksum(body: str) -> str:
    return encode_base62(zlib.crc32(body.encode("ascii")), API_KEY_CHECKSUM_CHARS)
