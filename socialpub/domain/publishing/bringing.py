"""Media that a post names by address, on their way here: fetched apart, in the share of whoever named it and its host.

Whoever names an address may let it hang. Neither the thread nor the place of a post is kept for it meanwhile: other
posts to the same platform need both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace

from socialpub.domain.accounts.calling import StorageError
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.publishing.intents import Snapshot
from socialpub.platforms.contract import Draft

SOON = 0.5  # seconds in which most files come
AGAIN = 30.0  # then it is looked whether all has come: there may have been nobody to ring


def begun(service: Service, fetched: library.Fetched, snapshot: Snapshot, draft: Draft) -> list[Future[None]]:
    """What of a post's media is still to come, now that it has been begun; an immediate post waits a moment for it.

    StorageError when the server is stopping: the next start goes on with the post.
    """
    post = snapshot.post
    fetched.owned(post["batch"], post["organization"])
    items = library.draft_items(service, json.loads(post["media"]), snapshot.assets)
    urls = library.named_urls(post["platform"], post["media"], replace(draft, items=items))
    try:
        coming = [fetched.begin(post["batch"], url) for url in urls]
    except RuntimeError as error:
        raise StorageError(str(error)) from error
    return list(wait(coming, SOON if post["scheduled_at"] is None else 0).not_done)


def ring_after(service: Service, coming: Sequence[Future[None]], post: str) -> None:
    """Ring for the post, which waits by now, once all has come."""

    def ring(_: Future[None]) -> None:
        if all(each.done() for each in coming):
            service.write(lambda tx: service.jobs.hasten(tx, [post], service.now_ms))

    for each in coming:
        each.add_done_callback(ring)
