"""`socialpub posts`: list and change posts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from socialpub_client.commands import content_options as content
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.runner import Output, confirm, connect, connect_to_write, format_fields

Json = dict[str, Any]
PAGE = 100


def limited(options: ApiOptions, pages: Iterable[Any]) -> Iterable[Json]:
    """Return the raw rows of a list, at most `--limit`."""
    rows = (dict(row.raw) for row in pages)
    return itertools.islice(rows, options.limit) if options.limit else rows


def page_size(options: ApiOptions) -> int:
    """Return the size of the pages that a list is read in."""
    return min(options.limit or PAGE, PAGE)


def list_posts(options: ApiOptions) -> Output:
    """List posts, newest first."""
    after, before = content.read_times(options, "scheduled_after", "scheduled_before")
    client = connect(options)
    account = content.find_account(options, client, options.account) if options.account else None
    pages = client.posts.list(
        status=options.status,
        platform=options.platform,
        account=account,
        q=options.q,
        batch=options.batch,
        external_id=options.external_id or (),
        scheduled=(after, before),
        limit=page_size(options),
    )
    if options.ids:
        return Output(rows=limited(options, pages), lines=lambda row: [row["id"]])
    return Output(rows=limited(options, pages), lines=_format_row)


def _format_row(post: Json) -> list[str]:
    when = post["publishedAt"] or post["scheduledAt"] or post["createdAt"]
    text = " ".join(post["text"].split())
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return ["  ".join((post["id"], post["status"], post["platform"], when, shown))]


def show(options: ApiOptions) -> Output:
    """Show a post with its attempts."""
    client = connect(options)
    return Output(dict(client.posts.get(options.id).raw))


def edit(options: ApiOptions) -> Output:
    """Change the content of a queued post."""
    text, media, own = content.read_text(options, options.text), content.read_media(options), None
    if found := content.read_platform_options(options):
        if len(found) > 1:
            options.usage("a post is on one platform: --option names several")
        (own,) = found.values()
    if text is None and not media and own is None:
        options.usage("give --text, --file, --media or --option")
    with connect_to_write(options) as (client, key):
        post = client.posts.edit(
            options.id, text=text, media=media or None, options=own, if_match=options.if_match, idempotency_key=key
        )
    return _changed(post)


def move(options: ApiOptions) -> Output:
    """Change the time of a queued post."""
    at = content.read_time(options)
    if at is None:
        options.usage("give --at")
    with connect_to_write(options) as (client, key):
        return _changed(client.posts.edit(options.id, at=at, if_match=options.if_match, idempotency_key=key))


def cancel(options: ApiOptions) -> Output:
    """Cancel a queued post."""
    confirm(options, f"Cancel post {options.id}?")
    with connect_to_write(options) as (client, key):
        return _changed(client.posts.cancel(options.id, if_match=options.if_match, idempotency_key=key))


def retry(options: ApiOptions) -> Output:
    """Publish a failed post again."""
    at = content.read_time(options)
    with connect_to_write(options) as (client, key):
        return _changed(client.posts.retry(options.id, at=at, idempotency_key=key))


def settle(options: ApiOptions) -> Output:
    """Tell whether a post whose outcome is unknown is on the platform."""
    with connect_to_write(options) as (client, key):
        return _changed(
            client.posts.settle(options.id, published=options.published, uri=options.uri, idempotency_key=key)
        )


def _changed(row: Any) -> Output:
    return Output(
        dict(row.raw), lines=lambda value: _format_row(value) if "text" in value else format_fields(value), wrote=True
    )
