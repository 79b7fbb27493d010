"""Repository of one account: records, blobs, and the rules for changing them.

Source: @atproto/pds 0.5.35, api/com/atproto/repo/*, actor-store/repo/transactor.ts, actor-store/blob/transactor.ts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from socialpub.base.runtime import Clock
from socialpub.simulator.bluesky import cbor, schemas
from socialpub.simulator.bluesky.lexicon import FORMATS, InvalidError, blobs, shown
from socialpub.simulator.bluesky.xrpc import error, invalid

Unset = Literal["unset"]
Swap = str | None | Unset
_TID_LETTERS = "234567abcdefghijklmnopqrstuvwxyz"
_CLOCK_ID = 10


@dataclass(frozen=True)
class StoredRecord:
    uri: str
    cid: str
    value: Any
    created_ms: int

    def body(self) -> dict[str, Any]:
        return {"uri": self.uri, "cid": self.cid, "value": cbor.normalize_strings(self.value)}


@dataclass(frozen=True)
class StoredBlob:
    """Uploaded blob; `used` once a record has referenced it."""

    cid: str
    mime_type: str
    content: bytes
    used: bool = False

    def reference(self) -> dict[str, Any]:
        size = len(self.content)
        return {"$type": "blob", "ref": {"$link": self.cid}, "mimeType": self.mime_type, "size": size}


@dataclass(frozen=True)
class Write:
    """Prepared change. `value` None deletes.

    `swap`: the CID the record must have (None: no record).
    """

    action: Literal["create", "update", "delete"]
    collection: str
    rkey: str
    value: Any = None
    cid: str = ""
    status: str | None = None
    swap: Swap = "unset"

    @property
    def key(self) -> tuple[str, str]:
        return self.collection, self.rkey


@dataclass
class Repo:
    """Records by collection and key, blobs by CID, and the latest commit."""

    did: str
    clock: Clock
    records: dict[tuple[str, str], StoredRecord] = field(default_factory=dict)
    blobs: dict[str, StoredBlob] = field(default_factory=dict)
    head: str = ""
    _last_tid: int = 0

    def clear(self) -> None:
        self.records.clear()
        self.blobs.clear()

    def uri(self, collection: str, rkey: str) -> str:
        return f"at://{self.did}/{collection}/{rkey}"

    def next_tid(self) -> str:
        """Return a time-based key, greater than all earlier ones (atproto.com/specs/tid)."""
        self._last_tid = max(self.clock.now_ms() * 1000, self._last_tid + 1)
        number = self._last_tid << 10 | _CLOCK_ID
        return "".join(_TID_LETTERS[number >> shift & 31] for shift in range(60, -1, -5))

    def prepare(
        self, action: Literal["create", "update"], fields: Mapping[str, Any], place: tuple[str | int, ...]
    ) -> Write:
        """Validate a write of `collection`, `rkey` and `record`; `place` is its path in messages."""
        collection, record = fields["collection"], fields["record"]
        if record.get("$type", collection) != collection:
            raise invalid(f"Invalid $type: expected {collection}, got {_spelt(record['$type'])}")
        record = {**record, "$type": collection}
        rkey = fields.get("rkey") or self.next_tid()
        status = _validate(record, rkey, fields.get("validate"), place)
        try:
            cid = cbor.record_cid(record)
        except TypeError as fault:
            raise error(500) from fault
        return Write(action, collection, rkey, cbor.ordered(record), cid, status, fields.get("swapRecord", "unset"))

    def commit(self, writes: Sequence[Write], swap_commit: str | None = None) -> dict[str, str]:
        """Apply all writes, or none if one is refused; return the new commit."""
        if swap_commit is not None and swap_commit != self.head:
            raise error(400, "InvalidSwap", f"Commit was at {self.head}")
        records, kept = dict(self.records), dict(self.blobs)
        for write in writes:
            self._apply(write, records)
        self._update_blobs(writes, records, kept)
        self.records, self.blobs = records, kept
        rev = self.next_tid()
        self.head = cbor.record_cid({"did": self.did, "rev": rev, "prev": self.head})
        return {"cid": self.head, "rev": rev}

    def _apply(self, write: Write, records: dict[tuple[str, str], StoredRecord]) -> None:
        current = records.get(write.key)
        _check_swap(write, current)
        if (current is not None) == (write.action == "create"):
            raise error(500)  # the tree of the reference server throws: "already a value at key", "could not find"
        if write.action == "delete":
            del records[write.key]
        else:
            created = current.created_ms if current else self.clock.now_ms()
            records[write.key] = StoredRecord(self.uri(*write.key), write.cid, write.value, created)

    def _update_blobs(
        self, writes: Iterable[Write], records: Mapping[tuple[str, str], StoredRecord], kept: dict[str, StoredBlob]
    ) -> None:
        """Drop blobs without references; check those referenced for the first time."""
        changed = [self.records[write.key].value for write in writes if write.key in self.records]
        dropped = {cid_of(blob) for value in changed for blob in blobs(value)}
        if dropped:
            dropped -= {cid_of(blob) for record in records.values() for blob in blobs(record.value)}
        for cid in dropped:
            kept.pop(cid, None)
        for write in writes:
            for blob in blobs(write.value):
                kept[cid_of(blob)] = _checked(blob, kept.get(cid_of(blob)))

    def upload(self, content: bytes, mime_type: str) -> dict[str, Any]:
        """Store a blob; equal bytes are one blob."""
        cid = cbor.blob_cid(content)
        self.blobs.setdefault(cid, StoredBlob(cid, mime_type, content))
        return StoredBlob(cid, mime_type, content).reference()

    def listing(self, collection: str, *, cursor: str | None, reverse: bool, until_ms: int) -> list[StoredRecord]:
        """List records made up to `until_ms` after the cursor, by descending key.

        `reverse`: by ascending key.
        """
        found = [
            (rkey, record)
            for (name, rkey), record in self.records.items()
            if name == collection and record.created_ms <= until_ms
        ]
        found.sort(key=lambda pair: pair[0], reverse=not reverse)
        if cursor is not None:
            found = [pair for pair in found if (pair[0] > cursor if reverse else pair[0] < cursor)]
        return [record for _, record in found]


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def cid_of(blob: Mapping[str, Any]) -> str:
    return str(blob["ref"]["$link"])


def _validate(record: Any, rkey: str, wanted: bool | None, place: tuple[str | int, ...]) -> str | None:
    """Return the record's validation status; None if the client disabled validation."""
    if wanted is False:
        return None
    kind = record["$type"]
    schema = schemas.RECORDS.get(kind)
    if schema is None and wanted is True:
        raise invalid(f"Unknown lexicon type: {kind}")
    if schema is None:
        return "unknown"
    if not FORMATS["tid"].test(rkey):
        raise invalid(f"Invalid record key for {kind}: Invalid TID string (got {shown(rkey)}) at $")
    try:
        schema.check(record, place)
    except InvalidError as issue:
        raise invalid(f"Invalid {kind} record: {issue}") from issue
    return "valid"


def _check_swap(write: Write, current: StoredRecord | None) -> None:
    now_at = current.cid if current else None
    expected_none = write.action == "create"
    if write.swap == "unset":
        return
    if write.swap != now_at or (write.swap is None) != expected_none:
        raise error(400, "InvalidSwap", f"Record was at {now_at or 'null'}")


def _checked(blob: Mapping[str, Any], stored: StoredBlob | None) -> StoredBlob:
    """Return the stored blob, marked used.

    Type and size are checked at first use only, as there.
    """
    if stored is None:
        raise error(400, "BlobNotFound", f"Could not find blob: {cid_of(blob)}")
    for key, name, word, is_at in (
        ("mimeType", "InvalidMimeType", "Mimetype", stored.mime_type),
        ("size", "InvalidSize", "Size", len(stored.content)),
    ):
        if not stored.used and blob[key] != is_at:
            message = f"Referenced {word} does not match stored blob. Expected: {is_at}, Got: {blob[key]}"
            raise error(400, name, message)
    return StoredBlob(stored.cid, stored.mime_type, stored.content, used=True)
