"""Search for our post in the account's own list, despite X's changes to texts.

X rewrites texts: links become t.co addresses, media and quoted posts add one at the end, `&`, `<` and `>` are escaped,
and a reply may get its mentions in front. Both texts are compared with all that reversed.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import Json, Upstream
from socialpub.platforms.kit.api_errors import find_status, to_record, to_records
from socialpub.platforms.kit.text import normalize_copy, normalize_nfc
from socialpub.platforms.twitter.api import build_unusable_error, call
from socialpub.platforms.twitter.text import find_urls

SKEW_MS = 120_000  # between X's clock and ours (reliability: a match is exact within two minutes)
PAGE = 100
PAGES_MAX = 20
# The description 2.167 says `post`, its documentation still `tweet`: after a refusal the other spelling is tried.
SPELLINGS: tuple[Mapping[str, str], ...] = (
    {"post.fields": "attachments,created_at,entities,note_post,text", "expansions": "referenced_posts"},
    {"tweet.fields": "attachments,created_at,entities,note_tweet,referenced_tweets,text"},
)


_MEDIA_LINK = re.compile(r"/status/\d+/(?:photo|video)/\d+$")  # X puts one at the end of a post with media
_TEXT_MAX = 200_000  # characters of a text with its links: none of ours has more than 100,000
_LINKS_MAX = 1200  # per post: its weight has room for 1,100


@dataclass(frozen=True)
class TwitterPostList:
    """Recent posts of the account. `complete`: the list was read to its end."""

    posts: tuple[Json, ...]
    complete: bool


def list_recent(up: Upstream, since_ms: int) -> TwitterPostList:
    """List posts and replies since a moment. Raises ApiError for an unreadable page."""
    params = {
        "max_results": str(PAGE),
        "start_time": f"{datetime.fromtimestamp(since_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "exclude": "retweets",
    }
    reply, fields = _first_page(up, params)
    found = list(_filter_recent(up, reply, since_ms))
    for _ in range(PAGES_MAX - 1):
        if not (token := _next(reply)):
            break
        reply = _page(up, {**params, **fields, "pagination_token": token})
        found += _filter_recent(up, reply, since_ms)
    return TwitterPostList(tuple(found), not _next(reply))


def _first_page(up: Upstream, params: Mapping[str, str]) -> tuple[UpstreamResponse, Mapping[str, str]]:
    new, old = SPELLINGS
    try:
        return _page(up, {**params, **new}), new
    except ApiError as error:
        if find_status(error) != 400:
            raise
    return _page(up, {**params, **old}), old


def _page(up: Upstream, params: Mapping[str, str]) -> UpstreamResponse:
    return call(up, "settle", "GET", f"/2/users/{up.account.platform_account_id}/tweets", params=params)


def _filter_recent(up: Upstream, reply: UpstreamResponse, since_ms: int) -> Iterator[Json]:
    body = reply.record()
    data, meta = body.get("data"), body.get("meta")
    if data is None and isinstance(meta, dict) and meta.get("result_count") == 0:
        return
    if not isinstance(data, list):
        raise build_unusable_error(up, "settle", reply)
    for post in to_records(data):
        created = _created_ms(post)
        if created is None:  # it may be ours
            raise build_unusable_error(up, "settle", reply)
        if created >= since_ms:
            yield post


def _next(reply: UpstreamResponse) -> str:
    token = to_record(reply.record().get("meta")).get("next_token")
    return token if isinstance(token, str) else ""


def _created_ms(post: Json) -> int | None:
    """Parse the creation time in milliseconds; None if unreadable."""
    try:
        return int(datetime.fromisoformat(str(post.get("created_at"))).timestamp() * 1000)
    except ValueError:
        return None


# --- Match -------------------------------------------------------------------------------------------------------


def is_match(post: Json, plan: Json) -> bool:
    """Return whether a listed post matches the plan: its media, or same text and references.

    X need not give a key for each upload; one is enough, because no other upload has it.
    """
    keys = _media_keys(post)
    if plan["keys"]:
        return any(key in keys for key in plan["keys"])
    body = plan["body"]
    if keys or _references(post) != _expected_references(body):
        return False
    ours, theirs = _own_text(body.get("text", "")), _listed_text(post, body.get("quote_tweet_id", ""))
    if theirs is None:
        return False
    return theirs == ours or ("reply" in body and _bare(theirs) == _bare(ours))


def is_doubtful(post: Json, plan: Json) -> bool:
    """Return whether a listed post with media may be ours: its keys or ours are missing."""
    keys = _media_keys(post)
    return "media" in plan["body"] and not (plan["keys"] and keys) and bool(keys or _has_media_link(post))


def _has_media_link(post: Json) -> bool:
    return any(_MEDIA_LINK.search(str(link.get("expanded_url") or "")) for link in _links(post))


def _media_keys(post: Json) -> list[Any]:
    keys = to_record(post.get("attachments")).get("media_keys")
    return keys if isinstance(keys, list) else []


def _expected_references(body: Json) -> dict[str, str]:
    quoted, answered = body.get("quote_tweet_id"), to_record(body.get("reply")).get("in_reply_to_tweet_id")
    return ({"quoted": quoted} if quoted else {}) | ({"replied_to": answered} if answered else {})


def _references(post: Json) -> dict[str, str]:
    named = to_records(post.get("referenced_posts") or post.get("referenced_tweets"))
    return {str(each.get("type")): str(each.get("id")) for each in named}


def _own_text(text: str) -> str:
    text = normalize_nfc(text)
    pieces, last = [], 0
    for url in find_urls(text):
        pieces += [text[last : url.start], _address(text[url.start : url.end])]
        last = url.end
    return normalize_copy("".join([*pieces, text[last:]]))


def _listed_text(post: Json, quoted: str) -> str | None:
    """Return the full text (in a note, if long) with original links; None if too long.

    A short link may occur any number of times, and its replacement may have any length.
    """
    note = to_record(post.get("note_post") or post.get("note_tweet"))
    source = note if note.get("text") else post
    text = html.unescape(str(source.get("text") or ""))
    for link in _links(source):
        target = str(link.get("expanded_url") or "")
        gone = bool(quoted) and re.search(rf"/status/{quoted}$", target)
        url, address = str(link["url"]), "" if gone else _address(target)
        if len(text) + text.count(url) * len(address) > _TEXT_MAX:
            return None
        text = text.replace(url, address)
    return normalize_copy(text)


def _links(source: Json) -> Iterable[Json]:
    links = to_records(to_record(source.get("entities")).get("urls"))
    found = (link for link in links if link.get("url"))
    return itertools.islice(found, _LINKS_MAX)


def _address(url: str) -> str:
    """Normalize a link: X adds or changes scheme, case of the host, closing slash."""
    rest = re.sub(r"^https?://", "", url, flags=re.IGNORECASE)
    host = re.match(r"[^/?#]*", rest)
    end = host.end() if host else 0
    return rest[:end].lower() + rest[end:].rstrip("/")


def _bare(text: str) -> str:
    return re.sub(r"^(?:@\w+ )+", "", text)
