"""Stories with an image: an unpublished photo, published by one call and listed for a day.

Source: developers.facebook.com/docs/page-stories-api. The list has each story with the id of its photo.
"""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.platforms.contract import Absent, Json, Published, Unknown, Upstream
from socialpub.platforms.facebook.declaration import GRAPH
from socialpub.platforms.kit.api_errors import to_text
from socialpub.platforms.meta.graph import find_cursor, list_data

_LISTED = {"fields": "post_id,status,media_id,url", "limit": "100"}
_PUBLISHED = "PUBLISHED"


def publish(up: Upstream, plan: Json) -> Published:
    """Publish the photo as a story, and read its address."""
    form = {"photo_id": plan["photo"]}
    reply = GRAPH.call(up, "send", "POST", _find_edge(up, "photo_stories"), mutating=True, data=form)
    if reply.record().get("success") is not True:
        raise GRAPH.build_unusable(up, "send", reply, mutating=True)
    id = GRAPH.id_of(up, "send", reply, mutating=True, key="post_id")
    try:
        found = look_up(up, plan)
    except ApiError:  # it is published all the same
        return Published(id)
    return found if isinstance(found, Published) else Published(id)


def look_up(up: Upstream, plan: Json) -> Published | Absent | Unknown:
    """Find the story of the photo in the Page's list."""
    reply = GRAPH.call(up, "settle", "GET", _find_edge(up, "stories"), params=_LISTED)
    if not isinstance(reply.record().get("data"), list):
        raise GRAPH.build_unusable(up, "settle", reply)
    stories = [story for story in list_data(reply) if to_text(story.get("media_id")) == plan["photo"]]
    for story in stories:
        id, url = to_text(story.get("post_id")), to_text(story.get("url")) or None
        if id and to_text(story.get("status")).upper() == _PUBLISHED:
            return Published(id, url, None, url)
    evidence = {"stories": stories}
    return Unknown(evidence) if stories or find_cursor(reply.record()) else Absent(evidence)


def _find_edge(up: Upstream, name: str) -> str:
    return f"{up.account.platform_account_id}/{name}"
