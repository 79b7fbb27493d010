"""Facebook Pages through Meta's Graph API: media first and unpublished, then one public call.

There is no key: what was sent without an answer is looked for in the Page's own list, and a video under its id, which
is known before it is published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms import facebook_upload, oauth
from socialpub.platforms.base import (
    Absent,
    Connected,
    Draft,
    Identity,
    Json,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.facebook_platform import GRAPH, PLATFORM, REPLIES
from socialpub.platforms.meta import AUTH, data_of, exchanged, normal, recent
from socialpub.platforms.refusals import text_of

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "revoke", "send", "settle"]

_WEB = "https://www.facebook.com"
_POST_FIELDS = (
    "id,message,created_time,permalink_url,application,"
    "attachments{media_type,unshimmed_url,target{id},subattachments{target{id}}}"
)
_VIDEO_FIELDS = "status,published,permalink_url,post_id"
_PAGE_FIELDS = "id,name,access_token,tasks,category"
_PAGES_OF_PAGES = 20
_ID = {"fields": "id"}
_BEGUN = ("in_progress", "complete", "completed")
_OVER = ("error", "expired", "upload_failed")


# --- Publishing --------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Upload the media, unpublished."""
    if draft.items and draft.items[0].kind == "video":
        found = facebook_upload.video(up, draft, saved)
        if isinstance(found, Pending):
            return found
        return Ready({"kind": "video", "session": found.session, "video": found.video, "message": draft.text})
    photos = [facebook_upload.photo(up, item, draft) for item in draft.items]
    link = "" if photos else draft.options.get("link", "")
    return Ready({"kind": "feed", "message": draft.text, "link": link, "photos": photos})


def send(up: Upstream, plan: Json) -> Published:
    """The one public call."""
    return _finish(up, plan) if plan["kind"] == "video" else _post(up, plan)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Look at the video, or for the post in the Page's list."""
    try:
        return _look_at_video(up, plan) if plan["kind"] == "video" else _look_for_post(up, plan, since_ms)
    except ApiError as error:
        return Unknown({"error": error.message, "answer": error.platform_response})


# --- Posts -------------------------------------------------------------------------------------------------------


def _post(up: Upstream, plan: Json) -> Published:
    fields = {"fields": "id,permalink_url"}
    reply = GRAPH.call(up, "send", "POST", _edge(up, "feed"), mutating=True, params=fields, data=_form(plan))
    return _shown(reply.record() | {"id": GRAPH.id_of(up, "send", reply, mutating=True)})


def _form(plan: Json) -> dict[str, str]:
    form = {name: plan[name] for name in ("message", "link") if plan[name]}
    media = (json.dumps({"media_fbid": photo}, separators=(",", ":")) for photo in plan["photos"])
    return form | {f"attached_media[{index}]": value for index, value in enumerate(media)}


def _edge(up: Upstream, name: str) -> str:
    return f"{up.account.platform_account_id}/{name}"


def _look_for_post(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """The one post of ours in the Page's list, with the same words and media, young enough."""
    listed = recent(GRAPH, up, _edge(up, "published_posts"), _POST_FIELDS, "created_time", since_ms)
    ours = [post for post in listed.posts if _is_ours(up, plan, post)]
    evidence = {"looked": len(listed.posts), "alike": len(ours)}
    if len(ours) == 1 and listed.complete:
        return _shown(ours[0])
    return Absent(evidence) if not ours and listed.complete else Unknown(evidence)


def _is_ours(up: Upstream, plan: Json, post: Json) -> bool:
    id = text_of(post.get("id"))
    if not id or id in up.bound or normal(post.get("message")) != normal(plan["message"]):
        return False
    application = post.get("application")
    author = text_of(application.get("id")) if isinstance(application, dict) else ""
    if author and up.site.client_id and author != up.site.client_id:
        return False
    if plan["photos"]:
        return set(_photos(post)) == set(plan["photos"])
    # Words alone say little when there are none; then the link must be the same.
    return bool(plan["message"]) or plan["link"] in _links(post)


def _attachments(node: Json, name: str = "attachments") -> Iterator[Json]:
    inner = node.get(name)
    data = inner.get("data") if isinstance(inner, dict) else None
    yield from (item for item in (data if isinstance(data, list) else []) if isinstance(item, dict))


def _photos(post: Json) -> Iterator[str]:
    for item in _attachments(post):
        for each in list(_attachments(item, "subattachments")) or [item]:
            target = each.get("target")
            if isinstance(target, dict):
                yield text_of(target.get("id"))


def _links(post: Json) -> list[str]:
    return [text_of(item.get("unshimmed_url")) for item in _attachments(post)]


def _shown(post: Json) -> Published:
    url = _absolute(text_of(post.get("permalink_url"))) or f"{_WEB}/{post['id']}"
    return Published(text_of(post["id"]), url, None, url)


def _absolute(link: str) -> str:
    """The permalink of a post is an address, that of a video often only a path."""
    return f"{_WEB}{link}" if link.startswith("/") else link


# --- Videos ------------------------------------------------------------------------------------------------------


def _finish(up: Upstream, plan: Json) -> Published:
    form = {"upload_phase": "finish", "upload_session_id": plan["session"]}
    form |= {"description": plan["message"]} if plan["message"] else {}
    reply = GRAPH.call(up, "send", "POST", facebook_upload.edge(up), mutating=True, data=form)
    if reply.record().get("success") is not True:
        raise GRAPH.unusable(up, "send", reply, mutating=True)
    try:
        seen = _seen(up, plan)
    except ApiError:
        seen = {}  # it is published all the same
    if _state(seen) in _OVER:
        raise GRAPH.ruled(up, "media.invalid", Outcome.REJECTED, _why(seen), {"status": 200, "body": seen})
    return _shown_video(plan, seen)


def _seen(up: Upstream, plan: Json) -> Json:
    return GRAPH.call(up, "look", "GET", plan["video"], params={"fields": _VIDEO_FIELDS}).record()


def _look_at_video(up: Upstream, plan: Json) -> Published | Absent | Unknown:
    """A video under its id: whether it was published, or is about to be since the last step has come."""
    seen = _seen(up, plan)
    phase = _under(_under(seen, "status"), "publishing_phase")
    begun = (
        phase.get("status") in ("in_progress", "complete", "completed") or phase.get("publish_status") == "published"
    )
    if _state(seen) not in _OVER and (seen.get("published") is True or begun):
        return _shown_video(plan, seen)
    return Absent({"body": seen}) if _state(seen) else Unknown({"body": seen})


def _state(seen: Json) -> str:
    return text_of(_under(seen, "status").get("video_status"))


def _why(seen: Json) -> str:
    phase = _under(_under(seen, "status"), "processing_phase")
    said = phase.get("error") or phase.get("errors")
    return json.dumps(said)[:300] if said else ""


def _under(value: Json, name: str) -> Json:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _shown_video(plan: Json, seen: Json) -> Published:
    post = text_of(seen.get("post_id"))
    url = _absolute(text_of(seen.get("permalink_url"))) or (f"{_WEB}/{post}" if post else None)
    return Published(plan["video"], url, None, url)


# --- Connecting --------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[Connected, ...]:
    """The Pages of a login on which it may create content, each with a token of its own that does not end."""
    user = _long_lived(up, up.tokens.access, now_ms)
    login = GRAPH.id_of(up, "identify", GRAPH.call(up, "identify", "GET", "me", token=user.access, params=_ID))
    reply = GRAPH.call(up, "identify", "GET", "me/permissions", token=user.access)
    granted = [text_of(row.get("permission")) for row in data_of(reply) if row.get("status") == "granted"]
    oauth.require(PLATFORM, granted)
    pages = [page for page in _pages(up, user.access) if "CREATE_CONTENT" in (page.get("tasks") or ())]
    if not pages:
        raise GRAPH.ruled(up, "pages.none", Outcome.REJECTED)
    private = {"scopes": granted, "login": login}
    return tuple(_connected(page, user.access, private) for page in pages)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """The Page's token anew from the login behind it; where that is over, the Page's token as long as it works."""
    if up.tokens.refresh:
        try:
            return _again(up, up.tokens.refresh, now_ms)
        except ApiError as error:
            if error.code != AUTH:
                raise
    GRAPH.call(up, "identify", "GET", up.account.platform_account_id, params=_ID)
    return Tokens(up.tokens.access, None, None, up.tokens.private)


def revoke(up: Upstream) -> None:
    """Take back all that the login has allowed this app: a single Page cannot be left out of it."""
    login = up.tokens.private.get("login")
    if not login or not up.tokens.refresh:
        return
    try:
        GRAPH.call(up, "revoke", "DELETE", f"{login}/permissions", token=up.tokens.refresh)
    except ApiError as error:
        if error.code != AUTH:  # what is over already is what was asked for
            raise


def _again(up: Upstream, user_token: str, now_ms: int) -> Tokens:
    user = _long_lived(up, user_token, now_ms)
    for page in _pages(up, user.access):
        if text_of(page.get("id")) == up.account.platform_account_id:
            return Tokens(text_of(page["access_token"]), user.access, None, up.tokens.private)
    raise GRAPH.ruled(up, "pages.none", Outcome.REJECTED)


def _long_lived(up: Upstream, user_token: str, now_ms: int) -> Tokens:
    """A login's token for another 60 days."""
    params = {
        "grant_type": "fb_exchange_token",
        "client_id": up.site.client_id,
        "client_secret": up.site.client_secret,
        "fb_exchange_token": user_token,
    }
    return exchanged(GRAPH, up, up.site.token_url, params, now_ms)


def _pages(up: Upstream, user_token: str) -> Iterator[Json]:
    params = {"fields": _PAGE_FIELDS, "limit": "100"}
    for _ in range(_PAGES_OF_PAGES):
        reply = GRAPH.call(up, "identify", "GET", "me/accounts", token=user_token, params=params)
        yield from (page for page in data_of(reply) if text_of(page.get("id")) and text_of(page.get("access_token")))
        paging = _under(reply.record(), "paging")
        after = text_of(_under(paging, "cursors").get("after"))
        if not paging.get("next") or not after:
            return
        params = params | {"after": after}


def _connected(page: Json, user_token: str, private: Json) -> Connected:
    who = Identity(text_of(page["id"]), text_of(page.get("name")) or None, {"category": page.get("category")})
    return Connected(who, Tokens(text_of(page["access_token"]), user_token, None, private), "page")
