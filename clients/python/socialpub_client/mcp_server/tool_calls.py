"""Functions of the tools: calls of the API, and answers short enough for a model."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from socialpub_client import Answer, AsyncSocialpub, InvalidArgument, SocialpubError, Unauthorized, ValidationFailed
from socialpub_client.content import UUID
from socialpub_client.engine import given
from socialpub_client.mcp_server.plans import CheckedPlans
from socialpub_client.mcp_server.remote_files import RemoteFiles
from socialpub_client.models import MediaFile

Json = Mapping[str, Any]
ROW_BYTES = 250
TEXT_BYTES = 120
WAIT = 25


@dataclass(frozen=True)
class ToolCall:
    """Call of a tool: the caller's client, its valid arguments, and what the server keeps."""

    api: AsyncSocialpub
    arguments: Json
    plans: CheckedPlans
    files: RemoteFiles
    media_root: Path | None

    def get(self, name: str) -> Any:
        return self.arguments.get(name)

    async def read(self, path: str, **params: Any) -> Any:
        """Return the JSON that the API answers within the client's profile."""
        return (await self.api.request("GET", path, params=params | {"profileId": self.api.engine.profile})).json


# --- Read ----------------------------------------------------------------------------------------------------------


async def list_accounts(call: ToolCall) -> Json:
    """Return id, platform, name and state of each account, and what it needs."""
    found = await call.read("/v1/accounts", platform=call.get("platform"))
    return {"accounts": [_account_row(row) for row in found["data"]]}


def _account_row(row: Json) -> Json:
    needs = {"revoked": "reconnect it", "expiring": "reconnect it soon"}.get(row["status"])
    attention = row.get("attention", {}).get("message")
    return {name: row[name] for name in ("id", "platform", "status")} | given(
        name=row["displayName"] or row["platformAccountId"], needs=attention or needs
    )


async def list_posts(call: ToolCall) -> Json:
    """Return a page of posts, each in at most 250 bytes."""
    page = await call.read(
        "/v1/posts",
        status=call.get("status"),
        platform=call.get("platform"),
        accountId=call.get("account"),
        q=call.get("search"),
        limit=int(call.get("limit") or 20),  # 20.0 is an integer to the schema
        cursor=call.get("cursor"),
    )
    return {"posts": [shorten_post(row) for row in page["data"]]} | given(cursor=page["nextCursor"])


def shorten_post(post: Json) -> Json:
    """Return a post as a row whose JSON has at most ROW_BYTES."""
    row = {name: post[name] for name in ("id", "platform", "status")} | given(
        at=post["publishedAt"] or post["scheduledAt"], error=post.get("error", {}).get("code")
    )
    room = ROW_BYTES - len(json.dumps(row | {"text": ""}, ensure_ascii=False).encode())
    return row | {"text": cut_text(post["text"], min(room, TEXT_BYTES))}


def cut_text(text: str, room: int) -> str:
    """Return a text cut to at most `room` bytes of JSON, with an ellipsis if it is cut."""
    if len(text) <= room and len(json.dumps(text, ensure_ascii=False).encode()) - 2 <= room:
        return text
    taken, size = list[str](), len("…".encode())
    for character in text[:room]:
        size += len(json.dumps(character, ensure_ascii=False).encode()) - 2
        if size > room:
            break
        taken.append(character)
    return "".join(taken) + "…"


async def read_post(call: ToolCall) -> Json:
    """Return a post whole, with its version."""
    answer = await call.api.request("GET", _post_path(call))
    return {"version": _version_of(answer), "post": answer.json}


def _version_of(answer: Answer) -> str:
    """Return the ETag without its quotes, which models and shells lose."""
    return answer.etag.strip('"')


async def list_events(call: ToolCall) -> Json:
    """Return events after a cursor, and the cursor to go on with."""
    limit = int(call.get("limit") or 20)
    page = await call.read("/v1/events", cursor=call.get("after"), type=call.get("types"), limit=limit)
    more = page["nextCursor"]
    return {"events": page["data"], "cursor": more or page["endCursor"], "more": more is not None}


async def explain(call: ToolCall) -> Json:
    """Return a rule or an error code of the catalogue."""
    return await find_entry(call.api, call.arguments["name"])


async def find_entry(api: AsyncSocialpub, name: str) -> Json:
    """Return a rule or an error code. Raises ValidationFailed with names that are like it."""
    rules = (await api.request("GET", "/v1/rules")).json["data"]
    codes = (await api.request("GET", "/v1/errors")).json["data"]
    entries = {row["rule"]: row for row in rules} | {row["code"]: row for row in codes}
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=5)
        hint = f"Did you mean: {', '.join(near)}?" if near else "Take the name from `rule` or `code` of an answer."
        raise ValidationFailed("There is no rule or code of this name.", rule="name", remediation=hint)
    found: Json = entries[name]
    return found


# --- Check and publish ---------------------------------------------------------------------------------------------


async def check_post(call: ToolCall) -> Json:
    """Return what is wrong with a post for each target, and a plan if nothing is."""
    await require_zone(call)
    content = build_content(call.arguments) | given(profileId=call.api.engine.profile)
    answer = await call.api.request("POST", "/v1/posts/validate", json=content | {"plan": True})
    found = answer.json
    names = await _find_names(call)
    rows = [_checked_row(row, names) for row in found["results"]]
    result: dict[str, Any] = {"valid": found["valid"], "targets": rows}
    if "plan" in found:
        plan = found["plan"]["token"]
        call.plans.keep(plan, content, rows)
        result |= {"plan": plan, "planExpiresAt": found["plan"]["expiresAt"], "published": False}
    return result


async def _find_names(call: ToolCall) -> Mapping[str, str]:
    """Return the names of the accounts by id; none where the key may not read accounts."""
    try:
        accounts = (await call.read("/v1/accounts"))["data"]
    except Unauthorized:
        return {}
    return {row["id"]: row["displayName"] or row["platformAccountId"] for row in accounts}


def _checked_row(row: Json, names: Mapping[str, str]) -> Json:
    named = {"account": row["accountId"], "platform": row["platform"], "valid": row["valid"], "length": row["text"]}
    named |= given(name=names.get(row["accountId"]))
    problems = {name: row[name] for name in ("errors", "warnings") if row[name]}
    return named | problems | given(thread=row.get("thread"))


def build_content(arguments: Json) -> dict[str, Any]:
    """Build a publish request. Raises InvalidArgument for an entry of `only` that is no target."""
    only = arguments.get("only", {})
    strange = sorted(set(only) - set(arguments["to"]))
    if strange:
        raise InvalidArgument(f"`only` names {', '.join(strange)}, which `to` does not have.", rule="only")
    thread = arguments.get("thread")
    comment = arguments.get("first_comment")
    return {"targets": [_build_target(entry, only.get(entry, {})) for entry in arguments["to"]]} | given(
        text=arguments.get("text"),
        media=build_media(arguments.get("media")),
        scheduledAt=arguments.get("at"),
        thread=[{"text": text} for text in thread] if thread else None,
        firstComment={"text": comment} if comment else None,
    )


def _build_target(entry: str, differing: Json) -> dict[str, Any]:
    name = "accountId" if UUID.fullmatch(entry) else "platform"
    return {name: entry} | given(
        text=differing.get("text"), media=build_media(differing.get("media")), options=differing.get("options")
    )


def build_media(items: Sequence[Any] | None) -> list[Any] | None:
    """Build media items of a request. Raises InvalidArgument for one that is no uploaded file."""
    return None if items is None else [_build_item(item) for item in items]


def _build_item(item: Any) -> Any:
    fields = cast(Json, item if isinstance(item, Mapping) else {})
    if set(fields) - {"id", "alt", "kind"} or not isinstance(fields.get("id"), str):
        raise InvalidArgument("A media item is {id, alt?, kind?}.", rule="media", remediation="Use upload_media first.")
    return {"kind": fields.get("kind", "image"), "mediaId": fields["id"]} | given(altText=fields.get("alt"))


async def require_zone(call: ToolCall) -> None:
    """Raise ValidationFailed for a time without a zone.

    Its remedy names the profile's zone where it is known.
    """
    at = call.get("at")
    if at is None:
        return
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        return  # the API says what is wrong with it
    if time.tzinfo is not None:
        return
    zone = await _find_zone(call)
    try:
        example = time.replace(tzinfo=ZoneInfo(zone or "UTC")).isoformat()
    except (KeyError, ValueError, OSError):  # this machine does not know the zone
        example = f"{at}+00:00"
    about = f"The profile's zone is {zone}, so perhaps {example}" if zone else f"For example {example}"
    raise ValidationFailed(
        "The time has no zone.", rule="scheduledAt", remediation=f"Ask the user which zone is meant. {about}."
    )


async def _find_zone(call: ToolCall) -> str | None:
    try:
        zone: str = (await call.read("/v1/slots"))["zone"]
    except SocialpubError:  # several profiles, or none: there is no one zone
        return None
    return zone


async def publish_post(call: ToolCall) -> Json:
    """Publish a plan; the plan is the idempotency key."""
    plan = call.arguments["plan"]
    answer = await call.api.request("POST", "/v1/posts", json={"plan": plan}, idempotency_key=plan, wait=WAIT)
    batch = answer.json
    rows = [_result_row(row) for row in batch["results"]]
    return {"batch": batch["id"], "outcome": describe_outcome(rows)} | given(
        scheduledAt=batch.get("scheduledAt"), targets=rows, repeated=answer.replayed or None
    )


def _result_row(row: Json) -> dict[str, Any]:
    return {
        "account": row["accountId"],
        "platform": row["platform"],
        "post": row["postId"],
        "status": row["status"],
    } | {name: row[name] for name in ("url", "error", "warnings", "thread") if row.get(name)}


def describe_outcome(rows: Sequence[Json]) -> str:
    """Return in words what the post log says of a batch, pieces of threads included.

    Nothing is called published before it is.
    """
    states = [post["status"] for row in rows for post in (row, *row.get("thread", ()))]
    done = states.count("published")
    lost = sum(state in ("failed", "rejected", "canceled") for state in states)
    waiting = len(states) - done - lost
    if waiting == 0 and lost == 0:
        return "published"
    parts = [f"{done} published"] * bool(done) + [f"{lost} failed"] * bool(lost)
    if waiting:
        parts.append(f"{waiting} accepted, not yet published: read_post tells when")
    return ", ".join(parts)


# --- Change --------------------------------------------------------------------------------------------------------


async def change_post(call: ToolCall) -> Json:
    """Change a queued post that still has this version."""
    await require_zone(call)
    change = given(
        text=call.get("text"),
        media=build_media(call.get("media")),
        options=call.get("options"),
        scheduledAt=call.get("at"),
    )
    if not change:
        raise InvalidArgument("Nothing is to be changed.", remediation="Give text, media, options or at.")
    return await _write(call, "PATCH", _post_path(call), change)


async def cancel_post(call: ToolCall) -> Json:
    """Cancel a queued post."""
    return await _write(call, "DELETE", _post_path(call))


async def retry_post(call: ToolCall) -> Json:
    """Publish a failed post again."""
    await require_zone(call)
    return await _write(call, "POST", f"{_post_path(call)}/retry", given(scheduledAt=call.get("at")))


async def _write(call: ToolCall, method: str, path: str, body: Json | None = None) -> Json:
    """Send a write.

    One for a version has that version's idempotency key: repeated, it is done once.
    """
    version = call.get("version")
    asked = json.dumps([method, path, version, body], sort_keys=True)
    key = None if version is None else "mcp-" + hashlib.sha256(asked.encode()).hexdigest()
    seen = None if version is None else f'"{version}"'
    answer = await call.api.request(method, path, json=body, if_match=seen, idempotency_key=key)
    return given(post=answer.json, version=_version_of(answer) or None)


def _post_path(call: ToolCall) -> str:
    id_ = call.arguments["id"]
    if not UUID.fullmatch(id_):
        raise InvalidArgument("`id` is not the id of a post.", rule="id", remediation="Take it from list_posts.")
    return f"/v1/posts/{id_}"


# --- Media ---------------------------------------------------------------------------------------------------------


async def upload_media(call: ToolCall) -> Json:
    """Upload a file below the media folder, or of a public address."""
    path, url = call.get("path"), call.get("url")
    if (path is None) == (url is None):
        raise InvalidArgument("Give either `path` or `url`.", rule="path")
    if url is None:
        file = await asyncio.to_thread(resolve_file, call.media_root, path)
        return _media_row(await call.api.media.upload(file, alt=call.get("alt")))
    await call.api.request("GET", "/v1/media", params={"limit": 1})  # nothing is fetched for a key that cannot upload
    async with call.files.fetch(url) as (file, name):
        return _media_row(await call.api.media.upload(file, alt=call.get("alt"), name=name))


def _media_row(media: MediaFile) -> Json:
    return {"id": media.id, "kind": media.kind, "sizeBytes": media.size_bytes} | given(
        width=media.width, height=media.height, alt=media.alt_text
    )


def resolve_file(root: Path | None, name: str) -> Path:
    """Return the path of a file below the media folder.

    Raises InvalidArgument, also for links that lead out.
    """
    if root is None:
        raise InvalidArgument(
            "This server has no media folder.",
            rule="path",
            remediation="Give a public `url`, or start it with --media-root.",
        )
    with contextlib.suppress(OSError, ValueError):
        found = (root / name).resolve(strict=True)
        if found.is_relative_to(root.resolve()) and found.is_file():
            return found
    raise InvalidArgument(
        "There is no such file below the media folder.", rule="path", remediation="Ask the user for its path."
    )


RUN: Mapping[str, Callable[[ToolCall], Awaitable[Json]]] = {
    "list_accounts": list_accounts,
    "list_posts": list_posts,
    "read_post": read_post,
    "list_events": list_events,
    "explain": explain,
    "check_post": check_post,
    "publish_post": publish_post,
    "change_post": change_post,
    "cancel_post": cancel_post,
    "retry_post": retry_post,
    "upload_media": upload_media,
}
"""The functions of the tools, by name."""
