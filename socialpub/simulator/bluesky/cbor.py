"""Content ids of AT Protocol: DAG-CBOR, SHA-256 and base32, for records and blobs.

Source: atproto.com/specs/data-model. A record gets the same CID here as on a real server.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

_RAW, _CBOR = b"\x55", b"\x71"  # multicodec codes
_MAX_SAFE_INTEGER = 2**53 - 1
_CID = re.compile(r"b[a-z2-7]{58}")
_CID_PREFIXES = (b"\x01\x55\x12\x20", b"\x01\x71\x12\x20")  # version 1, raw or DAG-CBOR, SHA-256 of 32 bytes


def record_cid(record: Any) -> str:
    """Return the CID of a record (`bafyrei…`). Raises TypeError for unsupported values."""
    return _cid(_CBOR, encode(record))


def blob_cid(content: bytes) -> str:
    """Return the CID of a blob (`bafkrei…`)."""
    return _cid(_RAW, content)


def _cid(codec: bytes, content: bytes) -> str:
    packed = b"\x01" + codec + b"\x12\x20" + hashlib.sha256(content).digest()
    return "b" + base64.b32encode(packed).decode().rstrip("=").lower()


def unpack(cid: str) -> bytes | None:
    """Decode a CID to the bytes that records hold; None if it is malformed."""
    if not _CID.fullmatch(cid):
        return None
    packed = base64.b32decode(cid[1:].upper() + "=" * (-len(cid[1:]) % 8))
    return packed if packed.startswith(_CID_PREFIXES) else None


def is_link(value: Any) -> bool:
    """Return whether a JSON value is a link: `{"$link": cid}` and nothing else."""
    return isinstance(value, dict) and value.keys() == {"$link"} and _is_cid(value["$link"])


def _is_cid(value: Any) -> bool:
    return isinstance(value, str) and unpack(value) is not None


def encode(value: Any) -> bytes:
    """Encode a JSON value as DAG-CBOR."""
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int) and abs(value) <= _MAX_SAFE_INTEGER:
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(encode, value))
    if is_link(value):
        packed = b"\x00" + (unpack(value["$link"]) or b"")
        return _head(6, 42) + _head(2, len(packed)) + packed
    if isinstance(value, dict) and value.keys() == {"$bytes"} and isinstance(value["$bytes"], str):
        data = base64.b64decode(value["$bytes"] + "=" * (-len(value["$bytes"]) % 4))
        return _head(2, len(data)) + data
    if isinstance(value, dict):
        pairs = ordered(value).items()
        return _head(5, len(pairs)) + b"".join(encode(key) + encode(item) for key, item in pairs)
    raise TypeError(f"no value of the data model: {type(value).__name__}")


def ordered(value: Any) -> Any:
    """Sort a value's keys in DAG-CBOR order, in which a server returns them."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return {key: ordered(value[key]) for key in keys}
    return [ordered(item) for item in value] if isinstance(value, list) else value


def _head(major: int, number: int) -> bytes:
    for width, code in ((1, 24), (2, 25), (4, 26), (8, 27)):
        if number < 24:
            return bytes([major << 5 | number])
        if number < 1 << 8 * width:
            return bytes([major << 5 | code]) + number.to_bytes(width, "big")
    raise TypeError("no integer of the data model")


def normalize_strings(value: Any) -> Any:
    """Return a stored value as the server reads it: without a byte order mark before strings."""
    if isinstance(value, str):
        return value.removeprefix("\ufeff")
    if isinstance(value, list):
        return [normalize_strings(item) for item in value]
    return (
        {normalize_strings(key): normalize_strings(item) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )
