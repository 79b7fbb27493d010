"""LinkedIn members and pages through the Posts API: media first, then one public call.

There is no idempotency key, and an app cannot list a member's posts: after a lost response a member's post stays
unknown, while a page's posts are searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    Draft,
    DraftMedia,
    Json,
    OfferedAccount,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import find_status, to_id, to_record, to_records, to_text
from socialpub.platforms.kit.text import escape_little_text, normalize_copy
from socialpub.platforms.linkedin import media as linkedin_media
from socialpub.platforms.linkedin.api import (
    build_auth_header,
    build_error,
    build_unusable_error,
    call,
    encode_urn,
    is_page,
)
from socialpub.platforms.linkedin.declaration import PLATFORM, REPLIES

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "revoke", "send", "settle"]

_WEB = "https://www.linkedin.com/feed/update"
_URN = re.compile(r"urn:li:(?:share|ugcPost):\d+")
_HASHTAG = re.compile(r"(?<!\\)\{hashtag\|\\?[#\uff03]\|([^{}|]*)\}")  # Posts API, little text format
_ESCAPED = re.compile(r"\\([|{}@\[\]()<>#\\*_~])")
_SKEW_MS = 120_000  # between LinkedIn's clock and ours
_PAGE, _PAGES_MAX = 25, 20
_ACLS_PAGE, _ACLS_PAGES_MAX = 100, 10
# Posts API, permissions: roles that may post for an organization; the second is spelled in two ways.
_ROLES = frozenset({"ADMINISTRATOR", "CONTENT_ADMINISTRATOR", "CONTENT_ADMIN", "DIRECT_SPONSORED_CONTENT_POSTER"})


# --- Publish -------------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Upload the media and build the post; `Pending` while LinkedIn processes them."""
    media = linkedin_media.upload_all(up, draft, saved)
    if isinstance(media, Pending):
        return media
    return Ready({"body": _body(up, draft, media)})


def _body(up: Upstream, draft: Draft, media: tuple[str, ...]) -> Json:
    content = _content(draft, media)
    return {
        "author": up.account.platform_account_id,
        "commentary": escape_little_text(draft.text),
        "visibility": draft.options.get("visibility", "PUBLIC"),
        "distribution": {"feedDistribution": "MAIN_FEED", "targetEntities": [], "thirdPartyDistributionChannels": []},
        **({"content": content} if content else {}),
        "lifecycleState": "PUBLISHED",
        "isReshareDisabledByAuthor": draft.options.get("reshareDisabled", False),
    }


def _content(draft: Draft, media: tuple[str, ...]) -> Json:
    named = [{"id": urn} | _describe(draft, item) for item, urn in zip(draft.items, media, strict=True)]
    if not named:
        return {}
    return {"media": named[0]} if len(named) == 1 else {"multiImage": {"images": named}}


def _describe(draft: Draft, item: DraftMedia) -> Json:
    if item.kind == "document":
        return {"title": draft.options["documentTitle"]}
    return {"altText": item.alt_text} if item.alt_text and item.kind == "image" else {}


def send(up: Upstream, plan: Json) -> Published:
    """Create the post."""
    reply = call(up, "send", "POST", "posts", mutating=True, json=plan["body"])
    urn = reply.headers.get("x-restli-id", "")
    if not _URN.fullmatch(urn):
        raise build_unusable_error(up, "send", reply, mutating=True)
    return _to_published(urn)


def _to_published(urn: str) -> Published:
    return Published(urn, urn, None, f"{_WEB}/{urn}/")


# --- Settle --------------------------------------------------------------------------------------------------------


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Find our post in a page's own list by content and time; a member has no list."""
    if not is_page(up):
        return Unknown({"reason": "LinkedIn shows an app no list of a member's posts."}, final=True)
    try:
        young, complete = _list_recent(up, since_ms - _SKEW_MS)
    except ApiError as error:
        if error.stale_token or find_status(error) != 403:
            raise
        return Unknown({"error": error.message, "answer": error.platform_response}, final=True)
    alike = [post for post in young if _may_be_ours(up, plan, post)]
    ours = [post for post in alike if _media(post) == _media(plan["body"])]
    evidence = {"looked": len(young), "alike": len(alike)}
    if len(ours) == 1 and complete:
        return _to_published(to_text(ours[0].get("id")))
    return Unknown(evidence) if alike or not complete else Absent(evidence)


def _list_recent(up: Upstream, since_ms: int) -> tuple[list[Json], bool]:
    """List the page's posts since then, and whether older ones were reached."""
    params = {"q": "author", "author": up.account.platform_account_id, "sortBy": "LAST_MODIFIED"}
    found: list[Json] = []
    for elements in _list_pages(up, "look", "posts", params, _PAGE, _PAGES_MAX):
        if elements is None or any(_created_ms(post) < 0 for post in elements):  # one without a time may be ours
            return found, False
        found += [post for post in elements if _created_ms(post) >= since_ms]
        # Changed before then implies created before then; without the time of its change a post tells nothing.
        if elements and all(0 <= _ms(post, "lastModifiedAt") < since_ms for post in elements):
            break
    return found, True


def _may_be_ours(up: Upstream, plan: Json, post: Json) -> bool:
    """Return whether a listed post has our author, text and, as far as named, media."""
    body, urn = plan["body"], to_id(post.get("id"))
    named = _media(post)
    return (
        (not urn or _URN.fullmatch(urn) is not None)  # unusable: it may be ours
        and post.get("author") == body["author"]
        and post.get("lifecycleState") in (None, "PUBLISHED", "PUBLISH_REQUESTED")
        and _normalize(to_text(post.get("commentary"))) == _normalize(body["commentary"])
        and (named == _media(body) or ("content" in body and not (named and all(named))))
        and urn not in up.bound
    )


def _media(post: Json) -> list[str]:
    """List the URNs of a post's media."""
    content = to_record(post.get("content"))
    several = content.get("multiImage")
    images = several.get("images") if isinstance(several, dict) else [content.get("media")]
    return [to_text(each.get("id")) for each in to_records(images)]


def _created_ms(post: Json) -> int:
    return max(_ms(post, "createdAt"), _ms(post, "publishedAt"))


def _ms(post: Json, name: str) -> int:
    value = post.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _normalize(commentary: str) -> str:
    """Normalize a commentary: LinkedIn may return hashtag templates and only some escapes."""
    return normalize_copy(_ESCAPED.sub(r"\1", _HASHTAG.sub(r"#\1", commentary)))


def _list_pages(
    up: Upstream, step: str, path: str, params: dict[str, str], size: int, limit: int
) -> Iterator[list[Json] | None]:
    """Yield the elements of a finder by page; None at the end if there are more than `limit`."""
    start = 0
    for _ in range(limit):
        asked = params | {"start": str(start), "count": str(size)}
        reply = call(up, step, "GET", path, params=asked, headers={"X-RestLi-Method": "FINDER"})
        elements = reply.record().get("elements")
        if not isinstance(elements, list):
            raise build_unusable_error(up, step, reply)
        yield to_records(elements)
        start += len(elements)
        if not elements or _is_last(reply, start):
            return
    yield None


def _is_last(reply: UpstreamResponse, start: int) -> bool:
    """Return whether the list ends before `start`; without a total, an empty page ends it."""
    page = to_record(reply.record().get("paging"))
    total, further = page.get("total"), any(link.get("rel") == "next" for link in to_records(page.get("links")))
    return isinstance(total, int) and total <= start and not further


# --- Connect -------------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """Return the member, and the pages where the member may publish, within the granted scopes."""
    granted = up.tokens.private.get("scopes", ())
    member, name = _member(up, "openid" in granted)
    tokens = Tokens(
        up.tokens.access,
        up.tokens.refresh,
        up.tokens.expires_at_ms,
        {**up.tokens.private, "login": member},
    )
    found = [OfferedAccount(AccountIdentity(member, name), tokens, "person")] if "w_member_social" in granted else []
    if "w_organization_social" in granted:
        found += [
            OfferedAccount(AccountIdentity(urn, _page_name(up, urn)), tokens, "organization") for urn in _pages(up)
        ]
    if not found:
        raise _no_access_error(granted)
    return tuple(found)


def _no_access_error(granted: Iterable[str]) -> ApiError:
    pages = "w_organization_social" in granted
    why = "This member may not publish on any page." if pages else "LinkedIn did not grant w_member_social."
    remediation = (
        "Have an administrator of the page give the member a content role, or connect as one."
        if pages
        else "Reconnect the account and grant every requested permission."
    )
    return ApiError("platform_auth_failed", why, platform=PLATFORM.name, remediation=remediation)


def _member(up: Upstream, by_openid: bool) -> tuple[str, str | None]:
    """Read URN and name. An app for pages has the older profile instead of OpenID Connect."""
    path = "userinfo" if by_openid else "me"
    reply = up.http.request("GET", f"{up.site.api_base}/v2/{path}", headers=build_auth_header(up))
    if not reply.is_success:
        raise build_error(up, "identify", reply)
    profile = reply.record()
    id = to_text(profile.get("sub" if by_openid else "id"))
    if not id:
        raise build_unusable_error(up, "identify", reply)
    parts = (to_text(profile.get("localizedFirstName")), to_text(profile.get("localizedLastName")))
    return f"urn:li:person:{id}", to_text(profile.get("name")) or " ".join(filter(None, parts)) or None


def _pages(up: Upstream) -> list[str]:
    """List the organizations that the member may post for."""
    params = {"q": "roleAssignee", "state": "APPROVED"}
    found: dict[str, None] = {}
    for elements in _list_pages(up, "pages", "organizationAcls", params, _ACLS_PAGE, _ACLS_PAGES_MAX):
        for each in elements or ():
            urn = to_text(each.get("organization"))
            if each.get("role") in _ROLES and urn.startswith("urn:li:organization:"):
                found[urn] = None
    return list(found)


def _page_name(up: Upstream, urn: str) -> str | None:
    reply = call(up, "pages", "GET", f"organizations/{encode_urn(urn.rpartition(':')[2])}")
    return to_text(reply.record().get("localizedName")) or None


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh the access token; the refresh token and its expiry stay."""
    return oauth.refresh(PLATFORM, up, now_ms)


def revoke(up: Upstream) -> None:
    """Revoke the authorization beside the token endpoint (RFC 7009; undocumented by LinkedIn)."""
    oauth.revoke(PLATFORM, up, f"{up.site.token_url.rpartition('/')[0]}/revoke")
