"""Download of media that a post names by URL, in a pool fair by organization and host.

A URL may hang. No thread or slot of the post is held meanwhile: other posts to the platform need them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace

from socialpub.domain.accounts.connector_session import StorageError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.platforms.contract import Draft

IMMEDIATE_WAIT_SECONDS = 0.5  # enough for most files
FALLBACK_SECONDS = 30.0  # until a post whose wake-up was lost is tried again


def start_downloads(
    service: AppContext, fetched: library.BatchMediaCache, snapshot: RunSnapshot, draft: Draft
) -> list[Future[None]]:
    """Start the downloads of a post's media; return the unfinished ones.

    An immediate post waits briefly for them. Raises StorageError when the server stops: the next start resumes the
    post.
    """
    post = snapshot.post
    fetched.set_organization(post["batch"], post["organization"])
    items = tuple(library.build_draft_item(service, ref, snapshot.assets) for ref in json.loads(post["media"]))
    urls = library.list_urls(post["platform"], post["media"], replace(draft, items=items))
    try:
        downloads = [fetched.start_fetch(post["batch"], url) for url in urls]
    except RuntimeError as error:
        raise StorageError(str(error)) from error
    return list(wait(downloads, IMMEDIATE_WAIT_SECONDS if post["scheduled_at"] is None else 0).not_done)


def wake_after(service: AppContext, downloads: Sequence[Future[None]], post: str) -> None:
    """Wake the post, which waits meanwhile, once all downloads are done."""

    def wake(_: Future[None]) -> None:
        if all(each.done() for each in downloads):
            service.write(lambda tx: service.jobs.hasten(tx, [post], service.now_ms))

    for each in downloads:
        each.add_done_callback(wake)
