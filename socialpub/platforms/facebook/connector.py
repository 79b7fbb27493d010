"""Facebook Pages through Meta's Graph API: unpublished media first, then one public call.

There is no idempotency key: after a lost response a post is looked up in the Page's list, and a video by its id, which
is known before its last step. That step only starts publishing: the video is polled until it is public.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from socialpub.base.errors import ApiError
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    Draft,
    Json,
    OfferedAccount,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.facebook import media_upload, stories, video_publication
from socialpub.platforms.facebook.declaration import FINISHED, GRAPH, PLATFORM, REPLIES
from socialpub.platforms.facebook.pages import PageDiscovery
from socialpub.platforms.facebook.rules import is_story
from socialpub.platforms.facebook.video_publication import WEB, FinishedUpload
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import to_address, to_record, to_records, to_text
from socialpub.platforms.kit.text import normalize_copy
from socialpub.platforms.meta.graph import AUTH, exchange, find_edge, list_data, list_recent

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "revoke", "send", "settle"]

_POST_FIELDS = (
    "id,message,created_time,permalink_url,application,"
    "attachments{media_type,unshimmed_url,target{id},subattachments{target{id}}}"
)
_MEDIA_TYPES = ("photo", "album", "video")
_ID = {"fields": "id"}


# --- Publishing --------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Upload the media, unpublished; of an accepted video, poll whether it is public."""
    if saved and "taken" in saved:
        return video_publication.poll(up, FinishedUpload(**saved["taken"]))
    if is_story(draft):
        return _prepare_story(up, draft, saved)
    if draft.items and draft.items[0].kind == "video":
        found = media_upload.upload_video(up, draft, saved)
        if isinstance(found, Pending):
            return found
        if isinstance(found, str):
            return Ready({"kind": "handle", "handle": found, "message": draft.text, "link": "", "photos": []})
        return Ready({"kind": "video", "session": found.session, "video": found.video, "message": draft.text})
    photos = media_upload.upload_photos(up, draft, saved)
    if isinstance(photos, Pending):
        return photos
    link = "" if photos else draft.options.get("link", "")
    return Ready({"kind": "feed", "message": draft.text, "link": link, "photos": photos} | _find_backdated(draft))


def _prepare_story(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    (item,) = draft.items
    if item.kind == "image":
        photos = media_upload.upload_photos(up, draft, saved)
        return photos if isinstance(photos, Pending) else Ready({"kind": "story", "photo": photos[0]})
    found = stories.upload_video(up, item, saved)
    return found if isinstance(found, Pending) else Ready({"kind": "video_story", "video": found})


def _find_backdated(draft: Draft) -> Json:
    """Return the time, in seconds, that the Page is to show."""
    time = draft.options.get("backdatedTime")
    return {"backdated": int(datetime.fromisoformat(time).timestamp())} if time else {}


def send(up: Upstream, plan: Json) -> Published | Pending:
    """Make the public call. A video that is already public needs none."""
    if "live" in plan:
        return video_publication.to_published(plan["video"], plan["live"])
    if plan["kind"] == "handle":
        return video_publication.publish(up, plan)
    if plan["kind"] == "story":
        return stories.publish_photo(up, plan)
    return video_publication.finish(up, plan) if plan["kind"] in FINISHED else _post(up, plan)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Pending | Absent | Unknown:
    """Look up the video, or the post in the Page's list."""
    if "live" in plan:
        return video_publication.to_published(plan["video"], plan["live"])
    try:
        if plan["kind"] == "story":
            return stories.look_up(up, plan["photo"])
        return video_publication.look_up(up, plan) if plan["kind"] in FINISHED else _find_post(up, plan, since_ms)
    except ApiError as error:
        return Unknown({"error": error.message, "answer": error.platform_response})


# --- Posts -------------------------------------------------------------------------------------------------------


def _post(up: Upstream, plan: Json) -> Published:
    """Publish to the feed; once more if Facebook could not read the link, which may pass."""
    try:
        return _publish(up, plan)
    except ApiError as error:
        if error.rule != "facebook.link.reachable":
            raise
    return _publish(up, plan)


def _publish(up: Upstream, plan: Json) -> Published:
    fields = {"fields": "id,permalink_url"}
    reply = GRAPH.call(up, "send", "POST", find_edge(up, "feed"), mutating=True, params=fields, data=_form(plan))
    return _to_published(reply.record() | {"id": GRAPH.id_of(up, "send", reply, mutating=True)})


def _form(plan: Json) -> dict[str, str]:
    form = {name: plan[name] for name in ("message", "link") if plan[name]}
    form |= {"backdated_time": str(plan["backdated"])} if "backdated" in plan else {}
    media = (json.dumps({"media_fbid": photo}, separators=(",", ":")) for photo in plan["photos"])
    return form | {f"attached_media[{index}]": value for index, value in enumerate(media)}


def _find_post(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Find our post in the Page's list: same text and attachments, recent.

    A backdated post may be listed under its older time, so not finding it proves nothing.
    """
    listed = list_recent(GRAPH, up, find_edge(up, "published_posts"), _POST_FIELDS, "created_time", since_ms)
    compared = [(post, _is_ours(plan, post)) for post in listed.posts if _is_open(up, post)]
    alike = [post for post, is_ours in compared if is_ours is not False]
    evidence = {"looked": len(listed.posts), "alike": len(alike)}
    ours = [post for post, is_ours in compared if is_ours]
    if len(ours) == 1 and listed.complete:
        return _to_published(ours[0])
    is_absent = not alike and listed.complete and "backdated" not in plan
    return Absent(evidence) if is_absent else Unknown(evidence)


def _is_open(up: Upstream, post: Json) -> bool:
    """Return whether a post is of this app, as far as it says so, and of no other post of ours."""
    author = to_text(to_record(post.get("application")).get("id"))
    is_foreign = author and up.site.client_id and author != up.site.client_id
    return not is_foreign and to_text(post.get("id")) not in up.bound


def _is_ours(plan: Json, post: Json) -> bool | None:
    """Return whether a listed post is ours; None if it may be.

    The id of a photo is ours alone, and Facebook may change texts and links.
    """
    is_said = normalize_copy(post.get("message")) == normalize_copy(plan["message"])
    media = list(_media(post))
    if plan["photos"]:
        unnamed = not media or any(not id for _, id in media)
        return any(id in plan["photos"] for _, id in media) or (None if is_said and unnamed else False)
    if not is_said:
        return False
    if plan["kind"] == "handle":  # its video has no id yet
        return None if not (media and plan["message"]) else any(kind.startswith("video") for kind, _ in media)
    if plan["link"]:
        return plan["link"] in _links(post) or None
    return True if not any(id for _, id in media) else None


def _attachments(node: Json, name: str = "attachments") -> list[Json]:
    return to_records(to_record(node.get(name)).get("data"))


def _media(post: Json) -> Iterator[tuple[str, str]]:
    """Yield kind and id of the photos and videos of a post; an id may be missing."""
    for item in _attachments(post):
        kind = to_text(item.get("media_type"))
        if kind.startswith(_MEDIA_TYPES):
            for each in _attachments(item, "subattachments") or [item]:
                yield kind, to_text(to_record(each.get("target")).get("id"))


def _links(post: Json) -> list[str]:
    return [to_text(item.get("unshimmed_url")) for item in _attachments(post)]


def _to_published(post: Json) -> Published:
    id = to_text(post.get("id"))
    url = to_address(post.get("permalink_url")) or f"{WEB}/{id}"
    return Published(id, url, None, url)


# --- Connecting --------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """List the Pages where the login may publish, each with a token that does not expire."""
    user = _long_lived(up, up.tokens.access, now_ms)
    login = GRAPH.id_of(up, "identify", GRAPH.call(up, "identify", "GET", "me", token=user.access, params=_ID))
    reply = GRAPH.call(up, "identify", "GET", "me/permissions", token=user.access)
    granted = [to_text(row.get("permission")) for row in list_data(reply) if row.get("status") == "granted"]
    oauth.require_scopes(PLATFORM, granted, up.site)
    discovery = PageDiscovery(up, user.access, granted)
    pages: list[Json] = []
    try:
        for page in discovery.pages():
            pages.append(page)  # noqa: PERF402 - those before a failure are kept
    except ApiError:
        if not pages:  # the login's own list suffices if portfolios are unavailable today
            raise
    if not pages:
        raise discovery.build_missing_error()
    private = {"scopes": granted, "login": login}
    return tuple(_connected(page, user.access, private) for page in pages)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh the Page's token through its login, or keep it while it works."""
    login = up.tokens.refresh
    if login:
        try:
            return _refresh_page_token(up, login, now_ms)
        except ApiError as error:
            unlisted = error.rule == "facebook.pages.none"
            if error.code != AUTH and not unlisted:
                raise
            login = login if unlisted else None
    GRAPH.call(up, "identify", "GET", up.account.platform_account_id, params=_ID)
    return Tokens(up.tokens.access, login, None, up.tokens.private)


def revoke(up: Upstream) -> None:
    """Revoke all permissions of the login: a single Page cannot be excluded."""
    login = up.tokens.private.get("login")
    if not login or not up.tokens.refresh:
        return
    try:
        GRAPH.call(up, "revoke", "DELETE", f"{login}/permissions", token=up.tokens.refresh)
    except ApiError as error:
        if error.code != AUTH:  # already revoked
            raise


def _refresh_page_token(up: Upstream, user_token: str, now_ms: int) -> Tokens:
    user = _long_lived(up, user_token, now_ms)
    discovery = PageDiscovery(up, user.access, up.tokens.private.get("scopes", ()))
    for page in discovery.pages():
        if page["id"] == up.account.platform_account_id:
            return Tokens(to_text(page["access_token"]), user.access, None, up.tokens.private)
    raise discovery.build_missing_error()


def _long_lived(up: Upstream, user_token: str, now_ms: int) -> Tokens:
    """Exchange a login's token for another 60 days."""
    params = {
        "grant_type": "fb_exchange_token",
        "client_id": up.site.client_id,
        "client_secret": up.site.client_secret,
        "fb_exchange_token": user_token,
    }
    return exchange(GRAPH, up, up.site.token_url, params, now_ms)


def _connected(page: Json, user_token: str, private: Json) -> OfferedAccount:
    identity = AccountIdentity(page["id"], to_text(page.get("name")) or None, {"category": page.get("category")})
    return OfferedAccount(identity, Tokens(to_text(page["access_token"]), user_token, None, private), "page")
