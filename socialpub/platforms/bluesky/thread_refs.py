"""References of a post, as the network has them: parent and root, quoted post.

A wrong root puts a reply in the wrong thread, or in none. So the parent is read, and nothing is published if that
fails; a quoted post likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.bluesky.xrpc import (
    LOOKUP_SECONDS,
    NO_PARENT,
    NO_QUOTED,
    Step,
    build_error,
    build_unusable_error,
    build_worded_error,
    call,
    find_server_origin,
    parse_origin,
)
from socialpub.platforms.contract import Draft, Json, PreviousPiece, Upstream, Verdict
from socialpub.platforms.contract.bounds import is_id
from socialpub.platforms.kit.api_errors import to_record

_UNREAD = Verdict(
    Outcome.NOT_SENT,
    "platform_unavailable",
    remediation="Publish again later, or name the thread's first post in `replyRootUri` and `replyRootCid`.",
)
_UNREAD_QUOTE = Verdict(Outcome.NOT_SENT, "platform_unavailable", remediation="Publish again later.")


def build_refs(up: Upstream, draft: Draft) -> Json | None:
    """Build `{root, parent}` of the record: of a piece of a thread, or of a reply; else None."""
    if draft.previous:
        return _build_thread_refs(up, draft.previous)
    return _build_option_refs(up, draft.options)


def _build_thread_refs(up: Upstream, previous: PreviousPiece) -> Json:
    """Build the references to the piece before; one that a person reported is read first."""
    if previous.cid is None:
        reply = _read(up, str(previous.uri))
        found = _parse_ref(reply.record())
        return {"root": _root(up, reply) or found, "parent": found}
    parent = {"uri": previous.uri, "cid": previous.cid}
    return {"root": find_root(previous.plan) or parent, "parent": parent}


def find_root(plan: Json) -> Json | None:
    """Return the root of the thread that a planned record replies in; None if it is no reply."""
    root: Json | None = plan["record"].get("reply", {}).get("root")
    return root


def _build_option_refs(up: Upstream, options: Mapping[str, Any]) -> Json | None:
    """Build `{root, parent}` of the record; None unless it is a reply.

    Raises rule `bluesky.reply.refs` for a missing or changed parent, `platform_unavailable` if it is unreadable.
    """
    if not options.get("replyToUri"):
        return None
    parent = {"uri": options["replyToUri"], "cid": options["replyToCid"]}
    if options.get("replyRootUri"):
        return {"root": {"uri": options["replyRootUri"], "cid": options["replyRootCid"]}, "parent": parent}
    reply = _read(up, parent["uri"])
    found = _parse_ref(reply.record()) or parent
    if found["cid"] != parent["cid"]:
        message = f"{parent['uri']} has the CID {found['cid']} now, not {parent['cid']}."
        raise build_worded_error(up, NO_PARENT, reply, message)
    return {"root": _root(up, reply) or found, "parent": found}


def build_quote(up: Upstream, options: Mapping[str, Any]) -> Json | None:
    """Build the reference to the quoted post as it is now; None without one.

    Raises rule `bluesky.quote.uri` for a missing post, `platform_unavailable` if it is unreadable.
    """
    if not options.get("quoteUri"):
        return None
    return _parse_ref(_read(up, options["quoteUri"], "quote").record())


def _read(up: Upstream, uri: str, step: Step = "look") -> UpstreamResponse:
    """Read a record from the account's own server, else from the public API."""
    where = dict(zip(("repo", "collection", "rkey"), uri.removeprefix("at://").split("/"), strict=True))
    lost: list[ApiError] = []
    for host in (find_server_origin(up), parse_origin(up.site.public_api)):
        try:
            reply = call(up, step, "GET", host, "com.atproto.repo.getRecord", params=where, timeout=LOOKUP_SECONDS)
            return _check_record(up, uri, step, reply)
        except ApiError as error:
            if error.rule in (NO_PARENT.rule, NO_QUOTED.rule):
                raise
            lost.append(error)
    raise _to_not_sent_error(up, lost[-1], step)


def _check_record(up: Upstream, uri: str, step: Step, reply: UpstreamResponse) -> UpstreamResponse:
    """Return the response if it contains the record of that address."""
    found, tail = _parse_ref(reply.record()), uri.removeprefix("at://").partition("/")[2]
    if found is None or not found["uri"].endswith(f"/{tail}") or not isinstance(reply.record().get("value"), dict):
        raise build_unusable_error(up, step, reply)
    return reply


def _root(up: Upstream, reply: UpstreamResponse) -> Json | None:
    """Return the parent's root; None if it starts a thread."""
    answers = reply.record()["value"].get("reply")
    if answers is None:
        return None
    root = _parse_ref(to_record(answers).get("root"))
    if root is None:
        raise _to_not_sent_error(up, build_unusable_error(up, "look", reply))
    return root


def _parse_ref(value: Any) -> dict[str, str] | None:
    """Parse a strong reference: address and CID."""
    uri, cid = map(to_record(value).get, ("uri", "cid"))
    if not isinstance(uri, str) or not uri.startswith("at://") or not is_id(cid):
        return None
    return {"uri": uri, "cid": cid}


def _to_not_sent_error(up: Upstream, error: ApiError, step: Step = "look") -> ApiError:
    """Convert a read failure into an error where nothing was sent."""
    if step == "quote":
        verdict, message = _UNREAD_QUOTE, f"The post to quote could not be read. {error.message}"
    else:
        verdict = _UNREAD
        message = f"The post to reply to could not be read, so its thread is unknown. {error.message}"
    made = build_error(up, verdict, message, error.platform_response)
    made.retry_after = error.retry_after
    return made
