"""Bluesky: posts are records in the account's repository, under a key that we choose.

The key (a TID) and the creation time come from the draft, so the same draft always writes the same record, and
`putRecord` with `swapRecord: null` answers a repeat with the first one's uri and cid (recorded from PDS 0.5.35).
A post whose repliers are limited is written together with its threadgate: a repeat fails, and the record is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.base.runtime import format_iso
from socialpub.platforms.bluesky import oauth, video
from socialpub.platforms.bluesky import text as bluesky_text
from socialpub.platforms.bluesky import thread_refs as bluesky_reply
from socialpub.platforms.bluesky.blobs import upload
from socialpub.platforms.bluesky.declaration import NO_REPLIES, PLATFORM
from socialpub.platforms.bluesky.dpop import new_key as client_key
from socialpub.platforms.bluesky.identity import is_handle, resolve_account, resolve_at
from socialpub.platforms.bluesky.xrpc import (
    NOT_THERE,
    REPLIES,
    Step,
    build_error,
    build_unusable_error,
    call,
    client_for,
    decode_claims,
    error_name,
    find_server_origin,
    parse_origin,
)
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    AppClient,
    AuthorizationRedirect,
    Draft,
    DraftMedia,
    Json,
    OfferedAccount,
    Pending,
    Published,
    PublishWarning,
    Ready,
    Tokens,
    Unknown,
    Upstream,
    Verdict,
)
from socialpub.platforms.contract.bounds import to_line
from socialpub.platforms.kit import images, link_cards
from socialpub.platforms.kit.api_errors import to_records
from socialpub.platforms.kit.rule_catalog import build_warning

__all__ = [
    "PLATFORM",
    "REPLIES",
    "accept",
    "client_documents",
    "client_key",
    "comment",
    "invite",
    "login",
    "prepare",
    "refresh",
    "revoke",
    "send",
    "settle",
]

COLLECTION = "app.bsky.feed.post"
THREADGATE = "app.bsky.feed.threadgate"
IMAGES_MAX = 4  # of app.bsky.embed.images; more need app.bsky.embed.gallery
_TID_ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
_COMMENT_AFTER_MS = 1
KEY_SPREAD_MICROS = 10_000
_CONFLICT = "bluesky.record.conflict"


# --- Sessions ------------------------------------------------------------------------------------------------------


def login(up: Upstream, fields: Mapping[str, str], now_ms: int) -> tuple[AccountIdentity, Tokens]:
    """Log in with a handle (or DID) and app password, at the account's own server."""
    found = resolve_account(up, fields["handle"])
    body = {"identifier": found.did, "password": fields["password"].strip()}
    reply = call(
        up, "login", "POST", found.pds, "com.atproto.server.createSession", json=body, secrets=(body["password"],)
    )
    if reply.record().get("active") is False:
        raise build_error(up, NOT_THERE, "This Bluesky account is not active.")
    tokens = _tokens(up, "login", reply, found.did)
    extra = {"handle": found.handle, "pds": found.pds}
    return AccountIdentity(found.did, _display_name(up, found.did) or found.handle, extra), tokens


def client_documents(base_url: str, client: AppClient) -> Mapping[str, Json]:
    """Build the documents that authorization servers read from this server."""
    return {"client-metadata.json": oauth.metadata(base_url, client), "jwks.json": oauth.jwks(client)}


def invite(up: Upstream, client: AppClient, handle: str, state: str) -> AuthorizationRedirect:
    """Push the authorization request to the account's own server."""
    return oauth.invite(up, client, handle, state)


def accept(up: Upstream, client: AppClient, stored: Json, code: str, iss: str | None) -> OfferedAccount:
    """Exchange the code for the account and its tokens."""
    home, tokens = oauth.accept(up, client, stored, code, iss)
    extra = {"handle": home.handle, "pds": home.pds}
    return OfferedAccount(AccountIdentity(home.did, _display_name(up, home.did) or home.handle, extra), tokens)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh the tokens. An app password's old ones work for two more hours."""
    if oauth.is_session(up.tokens):
        return oauth.refresh(up)
    if not up.tokens.refresh:
        raise build_error(
            up, REPLIES["refresh", 401, None], "This Bluesky account was connected without a refresh token."
        )
    reply = call(
        up, "refresh", "POST", find_server_origin(up), "com.atproto.server.refreshSession", bearer=up.tokens.refresh
    )
    return _tokens(up, "refresh", reply, up.account.platform_account_id)


def revoke(up: Upstream) -> None:
    """End the session upstream; the app password stays until its owner deletes it."""
    if oauth.is_session(up.tokens):
        return oauth.revoke(up)
    if not up.tokens.refresh:
        return None
    try:
        call(up, "revoke", "POST", find_server_origin(up), "com.atproto.server.deleteSession", bearer=up.tokens.refresh)
    except ApiError as error:
        if not error.stale_token:  # the session is already over
            raise


def _tokens(up: Upstream, step: Step, reply: UpstreamResponse, did: str) -> Tokens:
    session = reply.record()
    access, renew = session.get("accessJwt"), session.get("refreshJwt")
    if not (isinstance(access, str) and access and isinstance(renew, str) and renew) or session.get("did") != did:
        raise build_unusable_error(
            up, step, reply, mutating=True
        )  # the tokens were issued, even if the response is unusable
    expires = decode_claims(access).get("exp")
    expires_at_ms = expires * 1000 if isinstance(expires, int) and 0 < expires < 1 << 40 else None
    return Tokens(access, renew, expires_at_ms, up.tokens.private)


def _display_name(up: Upstream, did: str) -> str | None:
    """Return the profile's name; None if there is none or it is unreadable."""
    try:
        reply = call(
            up, "profile", "GET", parse_origin(up.site.public_api), "app.bsky.actor.getProfile", params={"actor": did}
        )
    except ApiError:
        return None
    name = reply.record().get("displayName")
    return to_line(name) or None if isinstance(name, str) else None


# --- Prepare -------------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Upload the media and build the record; `Pending` while a video is being processed."""
    warnings: tuple[PublishWarning, ...] = ()
    embed: Json | None = None
    if draft.items and draft.items[0].kind == "video":
        blob = video.prepare_blob(up, draft, saved)
        if isinstance(blob, Pending):
            return blob
        embed = _video(draft.items[0], blob)
    elif draft.items:
        embed = _images(up, draft.items)
    else:
        embed, warnings = _card(up, draft.text)
    embed = _quote(embed, bluesky_reply.build_quote(up, draft.options))
    record = _record(up, draft.text, draft.now_ms, draft.options)
    record |= _find_presence(
        reply=bluesky_reply.build_refs(up, draft), embed=embed, labels=_labels(draft.options.get("labels"))
    )
    plan = _plan(up, draft.now_ms, draft.nonce, record)
    return Ready(plan | _find_presence(gate=_gate(plan, draft.options.get("threadgate"))), warnings)


def comment(up: Upstream, draft: Draft, post: Published, plan: Json) -> Json:
    """Plan the first comment: a reply to our post, one millisecond later, in its thread."""
    ours = {"uri": post.uri, "cid": post.cid}
    root = bluesky_reply.find_root(plan) or ours
    text, now_ms = draft.first_comment or "", draft.now_ms + _COMMENT_AFTER_MS
    embed, _ = _card(up, text)
    record = _record(up, text, now_ms, draft.options)
    record |= _find_presence(reply={"root": root, "parent": ours}, embed=embed)
    return _plan(up, now_ms, draft.nonce, record)


def make_record_key(now_ms: int, nonce: int) -> str:
    """Build a record key: 53 bits of µs, 10 random ones, in base32 (atproto.com/specs/tid).

    The time is up to 10 ms before `now_ms`, at random, so that many posts of one moment get keys of their own: of a
    hundred of the same millisecond, two have the same key once in 2,000 times. A post whose key is taken is rejected.
    Servers list records in the order of their keys: posts sent one after another are more than 10 ms apart.
    """
    micros = max(now_ms * 1000 - (nonce >> 10) % KEY_SPREAD_MICROS, 0)
    number = (micros & ((1 << 53) - 1)) << 10 | nonce & 1023
    return "".join(_TID_ALPHABET[number >> shift & 31] for shift in range(60, -1, -5))


def _plan(up: Upstream, now_ms: int, nonce: int, record: Json) -> Json:
    return {
        "repo": up.account.platform_account_id,
        "collection": COLLECTION,
        "rkey": make_record_key(now_ms, nonce),
        "record": record,
    }


def _record(up: Upstream, text: str, now_ms: int, options: Mapping[str, Any]) -> Json:
    text = bluesky_text.strip_bom(text)
    record = {"$type": COLLECTION, "text": text, "createdAt": format_iso(now_ms)}
    return record | _find_presence(langs=options.get("langs"), facets=bluesky_text.build_facets(text, _resolver(up)))


def _labels(values: list[str] | None) -> Json | None:
    if not values:
        return None
    return {"$type": "com.atproto.label.defs#selfLabels", "values": [{"val": value} for value in values]}


def _gate(plan: Json, repliers: list[str] | None) -> Json | None:
    """Build the record that limits who may reply, which has the post's own key."""
    if not repliers:
        return None
    return {
        "$type": THREADGATE,
        "post": _find_uri(plan),
        "allow": [_allow(group) for group in repliers if group != NO_REPLIES],
        "createdAt": plan["record"]["createdAt"],
    }


def _allow(group: str) -> Json:
    if group.startswith("at://"):
        return {"$type": f"{THREADGATE}#listRule", "list": group}
    return {"$type": f"{THREADGATE}#{group}Rule"}


def _find_presence(**values: Any) -> Json:
    return {name: value for name, value in values.items() if value}


def _resolver(up: Upstream) -> Callable[[str], str | None]:
    """Return a resolver of mentions at the account's server: each once, none after a failure."""
    known: dict[str, str | None] = {}
    lost: list[ApiError] = []

    def resolve(handle: str) -> str | None:
        if handle not in known and is_handle(handle) and not lost:
            try:
                known[handle] = resolve_at(up, find_server_origin(up), handle)
            except ApiError as error:
                lost.append(error)
        return known.get(handle)

    return resolve


# --- Embeds --------------------------------------------------------------------------------------------------------


def _quote(embed: Json | None, ref: Json | None) -> Json | None:
    """Add the quoted post to what the post shows."""
    if ref is None:
        return embed
    quoted = {"$type": "app.bsky.embed.record", "record": ref}
    return {"$type": "app.bsky.embed.recordWithMedia", "record": quoted, "media": embed} if embed else quoted


def _images(up: Upstream, items: tuple[DraftMedia, ...]) -> Json:
    made = [_image(up, item) for item in items]
    if len(made) <= IMAGES_MAX:
        return {"$type": "app.bsky.embed.images", "images": made}
    shape = {"aspectRatio": {"width": 1, "height": 1}}  # required in a gallery, even if unmeasured
    return {
        "$type": "app.bsky.embed.gallery",
        "items": [{"$type": "app.bsky.embed.gallery#image", **shape, **image} for image in made],
    }


def _image(up: Upstream, item: DraftMedia) -> Json:
    content_type = item.facts.content_type if item.facts else "application/octet-stream"
    clean = images.remove_metadata(item.read(), content_type)
    blob = upload(up, "upload", {"Content-Type": content_type}, content=clean.data)
    image = {"image": blob, "alt": bluesky_text.strip_bom(item.alt_text or "")}
    return image | _find_presence(aspectRatio=_shape(item))


def _video(item: DraftMedia, blob: Json) -> Json:
    embed = {"$type": "app.bsky.embed.video", "video": blob}
    return embed | _find_presence(alt=bluesky_text.strip_bom(item.alt_text or ""), aspectRatio=_shape(item))


def _shape(item: DraftMedia) -> Json | None:
    facts = item.facts
    if facts is None or not facts.width or not facts.height:
        return None
    return {"width": facts.width, "height": facts.height}


def _card(up: Upstream, text: str) -> tuple[Json | None, tuple[PublishWarning, ...]]:
    """Build the card of the text's first link, or a warning."""
    url = bluesky_text.find_first_link(text)
    if url is None:
        return None, ()
    card = link_cards.fetch(up.guarded, url)
    if card is None:
        return None, (build_warning("link_card_failed", f"The link is {url}"),)
    external: Json = {"uri": url, "title": card.title, "description": card.description}
    thumb = _thumb(up, card)
    missed = bool(card.image_urls) and thumb is None
    message = f"The picture of {url} could not be used, so its card has none."
    embed = {"$type": "app.bsky.embed.external", "external": external | _find_presence(thumb=thumb)}
    return embed, (PublishWarning("link_card_failed", message),) if missed else ()


def _thumb(up: Upstream, card: link_cards.LinkCard) -> Json | None:
    """Upload the first usable picture of a card."""
    for picture in link_cards.fetch_pictures(up.guarded, card):
        try:
            return upload(up, "upload", {"Content-Type": picture.content_type}, content=picture.data)
        except ApiError as error:
            if error.outcome is not Outcome.REJECTED or error.code != "platform_rejected":
                raise
    return None


# --- Publish -------------------------------------------------------------------------------------------------------


def send(up: Upstream, plan: Json) -> Published:
    """Write the record. Repeating the plan changes nothing and returns the same uri and cid."""
    if "gate" in plan:
        return _write_gated(up, plan)
    try:
        reply = _put(up, plan)
    except ApiError as error:
        if error.rule != _CONFLICT:
            raise
        return _find_own(up, plan, error)
    return _published(up, plan, reply, reply.record())


def _write_gated(up: Upstream, plan: Json) -> Published:
    """Write the post and its threadgate in one commit."""
    written = ((plan["collection"], plan["record"]), (THREADGATE, plan["gate"]))
    writes = [
        {"$type": "com.atproto.repo.applyWrites#create", "collection": name, "rkey": plan["rkey"], "value": record}
        for name, record in written
    ]
    body = {"repo": plan["repo"], "validate": True, "writes": writes}
    nsid, auth = "com.atproto.repo.applyWrites", up.tokens.access
    reply = call(up, "send", "POST", find_server_origin(up), nsid, bearer=auth, mutating=True, json=body)
    post = next(iter(to_records(reply.record().get("results"))), {})
    return _published(up, plan, reply, post)


def _put(up: Upstream, plan: Json) -> UpstreamResponse:
    nsid, auth = "com.atproto.repo.putRecord", up.tokens.access
    body = {**_where(plan), "validate": True, "record": plan["record"], "swapRecord": None}
    return call(up, "send", "POST", find_server_origin(up), nsid, bearer=auth, mutating=True, json=body)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Look up the record's key on the account's own server, which is always current.

    A record that reads differently may still be ours (servers drop a byte order mark when reading): writing it again
    changes nothing, and the response tells.
    """
    found = _read(up, plan)
    if isinstance(found, Unknown) and found.final and up.tokens.access:
        return _compare(up, plan, found)
    return found


def _read(up: Upstream, plan: Json) -> Published | Absent | Unknown:
    """Read the record under the key; `Unknown.final` if it differs from ours."""
    url = f"{find_server_origin(up)}/xrpc/com.atproto.repo.getRecord"
    try:
        reply = client_for(up, url).request("GET", url, params=_where(plan))
        if reply.is_success and reply.record().get("value") == plan["record"]:
            return _published(up, plan, reply, reply.record())
    except ApiError as error:
        return Unknown({"error": error.message})
    evidence = {"status": reply.status_code, "error": error_name(reply)}
    if reply.status_code == 400 and error_name(reply) == "RecordNotFound":
        return Absent(evidence)
    return Unknown(evidence, final=reply.is_success and "value" in reply.record())


def _compare(up: Upstream, plan: Json, seen: Unknown) -> Published | Unknown:
    """Write the record again to compare: the same, another, or inconclusive."""
    try:
        reply = _put(up, plan)
        return _published(up, plan, reply, reply.record())
    except ApiError as error:
        if error.stale_token:
            raise
        return Unknown({**seen.evidence, "compared": error.message}, final=error.rule == _CONFLICT)


def _find_own(up: Upstream, plan: Json, conflict: ApiError) -> Published:
    """Return the conflicting record if it is ours. Raises the refusal, or an ambiguous error."""
    found = _read(up, plan)
    if isinstance(found, Published):
        return found
    if isinstance(found, Unknown) and found.final:
        raise conflict
    message = "Bluesky has a record under this post's key, but it could not be read."
    raise build_error(up, Verdict(Outcome.AMBIGUOUS, "platform_unavailable"), message) from conflict


def _where(plan: Json) -> Json:
    return {name: plan[name] for name in ("repo", "collection", "rkey")}


def _find_uri(plan: Json) -> str:
    return f"at://{plan['repo']}/{plan['collection']}/{plan['rkey']}"


def _published(up: Upstream, plan: Json, reply: UpstreamResponse, written: Json) -> Published:
    uri, cid = _find_uri(plan), written.get("cid")
    if written.get("uri") != uri or not isinstance(cid, str):
        raise build_unusable_error(up, "send", reply, mutating=True)
    return Published(uri, uri, cid, f"https://bsky.app/profile/{plan['repo']}/post/{plan['rkey']}")
