"""Methods `com.atproto.repo.*`: blobs and records, which are published to the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from socialpub.simulator import content_types
from socialpub.simulator.bluesky import cbor
from socialpub.simulator.bluesky.accounts import Account, Accounts
from socialpub.simulator.bluesky.lexicon import blobs
from socialpub.simulator.bluesky.repo import StoredRecord, Write, cid_of
from socialpub.simulator.bluesky.sessions import BLOB_LIMIT
from socialpub.simulator.bluesky.xrpc import Method, Request, content_type, error, invalid
from socialpub.simulator.ledger import Publication, PublishedMedia
from socialpub.simulator.state import SimulatorState

POST = "app.bsky.feed.post"
_RECORD = ("record",)
_BATCH = "com.atproto.repo.applyWrites"
_MAX_BATCH = 200


class Records:
    """Handlers that take a request and return JSON."""

    def __init__(self, lab: SimulatorState, accounts: Accounts) -> None:
        self._lab = lab
        self._accounts = accounts

    def methods(self) -> tuple[Method, ...]:
        repo = "com.atproto.repo"
        return (
            Method("POST", f"{repo}.uploadBlob", self._upload, auth="access", takes_blob=True),
            Method("POST", f"{repo}.createRecord", self._create, auth="access"),
            Method("POST", f"{repo}.putRecord", self._put, auth="access"),
            Method("POST", f"{repo}.deleteRecord", self._delete, auth="access"),
            Method("POST", f"{repo}.applyWrites", self._apply, auth="access"),
            Method("GET", f"{repo}.getRecord", self._get),
            Method("GET", f"{repo}.listRecords", self._list),
            Method("GET", f"{repo}.describeRepo", self._describe),
        )

    def _writer(self, request: Request) -> Account:
        """Return the account of the input's `repo`, which must be the caller's own."""
        account = self._accounts.active(request.input["repo"])
        if account.did != request.did:
            raise error(401, "AuthenticationRequired", "Authentication Required")
        return account

    def _reader(self, request: Request) -> Account | None:
        return self._accounts.find(request.params["repo"])

    # --- Writing ---

    def _upload(self, request: Request) -> Any:
        account = self._accounts.active(request.did)
        content = request.call.body
        if len(content) > BLOB_LIMIT:
            raise error(413)
        return {"blob": account.repo.upload(content, content_types.mime_type(content, content_type(request.call)))}

    def _create(self, request: Request) -> Any:
        account = self._writer(request)
        write = account.repo.prepare("create", request.input, _RECORD)
        return self._commit(account, write, request)

    def _put(self, request: Request) -> Any:
        account = self._writer(request)
        current = account.repo.records.get((request.input["collection"], request.input["rkey"]))
        write = account.repo.prepare("update" if current else "create", request.input, _RECORD)
        if current is not None and current.cid == write.cid:
            return _written(account, write, None)
        return self._commit(account, write, request)

    def _commit(self, account: Account, write: Write, request: Request) -> Any:
        commit = account.repo.commit([write], request.input.get("swapCommit"))
        self._publish(account, [write], request)
        return _written(account, write, commit)

    def _delete(self, request: Request) -> Any:
        account = self._writer(request)
        wanted = request.input
        write = Write("delete", wanted["collection"], wanted["rkey"], swap=wanted.get("swapRecord", "unset"))
        if write.key not in account.repo.records:
            return {}
        commit = account.repo.commit([write], wanted.get("swapCommit"))
        self._publish(account, [write], request)
        return {"commit": commit}

    def _apply(self, request: Request) -> Any:
        account = self._writer(request)
        asked: Sequence[Mapping[str, Any]] = request.input["writes"]
        if len(asked) > _MAX_BATCH:
            raise invalid(f"Too many writes. Max: {_MAX_BATCH}")
        validate = request.input.get("validate")
        writes = [_prepared(account, write, validate, number) for number, write in enumerate(asked)]
        commit = account.repo.commit(writes, request.input.get("swapCommit"))
        self._publish(account, writes, request)
        return {"commit": commit, "results": [_result(account, write) for write in writes]}

    # --- Reading ---

    def _get(self, request: Request) -> Any:
        account, params = self._reader(request), request.params
        if account is None:
            raise error(502)  # the server asks its AppView, and has none
        record = account.repo.records.get((params["collection"], params["rkey"]))
        if record is None or params.get("cid", record.cid) != record.cid:
            uri = account.repo.uri(params["collection"], params["rkey"])
            raise error(400, "RecordNotFound", f"Could not locate record: {uri}")
        return record.body()

    def _list(self, request: Request) -> Any:
        account, params = self._reader(request), request.params
        if account is None:
            raise invalid(f"Could not find repo: {params['repo']}")
        settings = self._lab.settings
        until = self._lab.clock.now_ms() - settings.list_lag_ms
        found = account.repo.listing(
            params["collection"], cursor=params.get("cursor"), reverse=params.get("reverse", False), until_ms=until
        )
        page = found[: min(params.get("limit", 50), settings.list_limit or 100)]
        return {"records": [record.body() for record in page], **_cursor(page)}

    def _describe(self, request: Request) -> Any:
        account = self._reader(request)
        if account is None:
            raise error(400, "RepoNotFound", f"Could not find repo for DID: {request.params['repo']}")
        return {
            "handle": account.handle,
            "did": account.did,
            "didDoc": account.did_document(request.call.origin),
            "collections": sorted({collection for collection, _ in account.repo.records}),
            "handleIsCorrect": True,
        }

    # --- The ledger ---

    def _publish(self, account: Account, writes: Sequence[Write], request: Request) -> None:
        for write in writes:
            self._lab.ledger.write(
                Publication(
                    platform="bluesky",
                    account=account.did,
                    kind=self._kind(write),
                    remote_id=account.repo.uri(*write.key),
                    url=f"https://bsky.app/profile/{account.did}/post/{write.rkey}"
                    if write.collection == POST
                    else None,
                    text=cbor.normalize_strings((write.value or {}).get("text")),
                    media=tuple(self._media(account, write.value)),
                    request=request.input,
                )
            )

    def _kind(self, write: Write) -> str:
        """Return the kind of a write.

        A reply whose references are wrong is in no thread: an `orphan`.
        """
        if write.action != "create":
            return write.action
        if write.collection != POST:
            return write.collection.rpartition(".")[2]
        if "reply" not in write.value:
            return "post"
        return "comment" if self._is_in_thread(write.value["reply"]) else "orphan"

    def _is_in_thread(self, reply: Mapping[str, Any]) -> bool:
        """Return whether the parent is as referenced, and in the root's thread.

        Records of other servers are not checked.
        """
        parent, root = self._find_referenced(reply["parent"]), self._find_referenced(reply["root"])
        if parent is None or root is None:
            return False
        its_root = (parent or {}).get("reply", {}).get("root", reply["parent"])
        return not parent or bool(its_root["uri"] == reply["root"]["uri"])

    def _find_referenced(self, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the value of the referenced record.

        None if there is no such record, {} if another server has it.
        """
        did, collection, rkey = reference["uri"].removeprefix("at://").split("/")
        account = self._accounts.find(did)
        if account is None:
            return {}
        record = account.repo.records.get((collection, rkey))
        return record.value if record is not None and record.cid == reference["cid"] else None

    def _media(self, account: Account, record: Any) -> list[PublishedMedia]:
        alts = _alternative_texts(record)
        found = []
        for reference in blobs(record):
            blob = account.repo.blobs[cid_of(reference)]
            found.append(self._lab.add_medium(blob.content, blob.mime_type, alts.get(blob.cid)))
        return found


def _alternative_texts(value: Any) -> dict[str, str]:
    """Map blob CIDs to the alt texts beside them, anywhere in a record."""
    found: dict[str, str] = {}
    if isinstance(value, dict):
        for item in value.values():
            found |= _alternative_texts(item)
        if isinstance(value.get("alt"), str):
            beside = [blob for key in ("image", "video") for blob in blobs(value.get(key))]
            found |= {cid_of(blob): value["alt"] for blob in beside}
    elif isinstance(value, list):
        for item in value:
            found |= _alternative_texts(item)
    return found


def _prepared(account: Account, write: Mapping[str, Any], validate: bool | None, number: int) -> Write:
    action = write["$type"].rpartition("#")[2]
    if action == "delete":
        return Write("delete", write["collection"], write["rkey"])
    fields = {
        "collection": write["collection"],
        "rkey": write.get("rkey"),
        "record": write["value"],
        "validate": validate,
    }
    return account.repo.prepare("create" if action == "create" else "update", fields, ("writes", number, "record"))


def _written(account: Account, write: Write, commit: Mapping[str, str] | None) -> dict[str, Any]:
    body: dict[str, Any] = {"uri": account.repo.uri(*write.key), "cid": write.cid}
    if commit is not None:
        body["commit"] = dict(commit)
    return body if write.status is None else {**body, "validationStatus": write.status}


def _result(account: Account, write: Write) -> dict[str, Any]:
    kind = {"$type": f"{_BATCH}#{write.action}Result"}
    return kind if write.action == "delete" else {**_written(account, write, None), **kind}


def _cursor(page: Sequence[StoredRecord]) -> dict[str, str]:
    return {"cursor": page[-1].uri.rpartition("/")[2]} if page else {}
