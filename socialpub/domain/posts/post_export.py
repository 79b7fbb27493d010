"""Export of posts: as the API shows them, with the options they were sent with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.posts import post_log
from socialpub.domain.schemas.posts import PostsQuery
from socialpub.store.engine import sql
from socialpub.store.queries import import_export

PAGE_SIZE = 200
Json = dict[str, Any]


def iter_posts(service: AppContext, scope: Scope, wanted: Json) -> Iterator[Json]:
    """Yield the scope's posts that match the GET /v1/posts query, newest first, page by page."""
    cursor = None
    while True:
        query = PostsQuery.model_validate({**wanted, "limit": PAGE_SIZE} | ({"cursor": cursor} if cursor else {}))
        page = service.read(lambda query=query: _load_page(service, scope, query)).result()  # type: ignore[misc]
        yield from page["data"]
        cursor = page["nextCursor"]
        if cursor is None:
            return


def _load_page(service: AppContext, scope: Scope, query: PostsQuery) -> Json:
    page: Json = sql.load_json(post_log.load_page(service, scope, query))
    ids = sql.dump_json([post["id"] for post in page["data"]])
    options = dict(sql.fetch_all(import_export.FIND_OPTIONS, (ids, scope.organization)))
    for post in page["data"]:
        post["options"] = sql.load_json(options[post["id"]] or "{}")
    return page
