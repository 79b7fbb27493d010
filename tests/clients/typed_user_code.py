"""Code of a user of the Python library, which strict type checkers accept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, assert_type

from socialpub_client import (
    Answer,
    AsyncBatch,
    AsyncPages,
    AsyncSocialpub,
    Batch,
    Check,
    Event,
    Media,
    OutcomeUnknown,
    Pages,
    PreflightFailed,
    Socialpub,
    Target,
    models,
)
from socialpub_client.webhooks import verify


def blocking(sp: Socialpub, at: datetime) -> None:
    """Calls of the blocking client."""
    target = Target("bluesky", text="x", media=[Path("a.jpg"), "med_1", Media(url="https://x/a.png", alt="A")])
    batch = sp.posts.publish("x", to=["bluesky", target], at=at)
    assert_type(batch, Batch)
    assert_type(batch.wait(timeout=3), Batch)
    assert_type(batch.raise_for_failure(), Batch)
    assert_type(batch.is_final, bool)
    assert_type(batch.results[0].error, models.ErrorDetail | None)
    assert_type(batch.scheduled_at, datetime | None)
    assert_type(batch.raw, Mapping[str, Any])
    assert_type(sp.posts.publish_and_wait("x", to="bluesky"), Batch)
    check = sp.posts.check("x", to="bluesky", plan=True)
    assert_type(check, Check)
    assert_type(check.ok, bool)
    assert_type(check.results[0].errors[0].rule, str | None)
    assert_type(check.plan, models.Plan | None)
    assert_type(sp.posts.publish_plan("plan_1"), Batch)
    assert_type(sp.posts.list(status=["queued"], scheduled=(at, None)), Pages[models.Post])
    assert_type(sp.posts.list().page(), tuple[models.Post, ...])
    assert_type(sp.posts.list().next_cursor, str | None)
    assert_type([post.text for post in sp.posts.list()], list[str])
    post = sp.posts.get("p")
    assert_type(post, models.PostDetail)
    assert_type(post.published_at, datetime | None)
    assert_type(post.etag, str)
    assert_type(sp.posts.edit("p", text="x", if_match=post.etag), models.Post)
    assert_type(sp.posts.cancel("p"), models.Canceled)
    assert_type(sp.posts.retry("p"), models.Post)
    assert_type(sp.posts.settle("p", published=True), models.Post)
    assert_type(sp.batches.get("b", wait=5), Batch)
    assert_type(sp.batches.cancel("b"), models.CanceledBatch)
    assert_type(sp.drafts.create({"text": "x"}), models.Draft)
    assert_type(sp.accounts.list(), tuple[models.Account, ...])
    assert_type(sp.media.upload(b"x"), models.MediaFile)
    assert_type(sp.media.find(sha256="0" * 64), models.MediaFile | None)
    assert_type(sp.events.follow(types=["post.published"]), Iterator[Event])
    assert_type(sp.webhooks.create("https://x"), models.SignedEndpoint)
    assert_type(sp.me().key, models.CallerKey | None)
    assert_type(sp.rules(), tuple[models.RuleInfo, ...])
    assert_type(sp.request("GET", "/v1/me"), Answer)


async def awaited(sp: AsyncSocialpub) -> None:
    """Calls of the client for an event loop."""
    batch = await sp.posts.publish("x", to="bluesky")
    assert_type(batch, AsyncBatch)
    assert_type(await batch.wait(), AsyncBatch)
    assert_type(await sp.posts.check("x", to="bluesky"), Check)
    assert_type(sp.posts.list(), AsyncPages[models.Post])
    assert_type([post.id async for post in sp.posts.list()], list[str])
    assert_type(await sp.media.upload(Path("a.jpg")), models.MediaFile)
    assert_type(sp.events.follow(), AsyncIterator[Event])
    assert_type(await sp.me(), models.Caller)


def failing(error: OutcomeUnknown | PreflightFailed, headers: Mapping[str, str]) -> None:
    """Errors, and a webhook's event."""
    if isinstance(error, OutcomeUnknown):
        assert_type(error.idempotency_key, str)
    else:
        assert_type(error.failures, tuple[models.PreflightFailure, ...])
    assert_type(error.retry_after, int | None)
    assert_type(verify(headers, b"{}", ["whsec_a", "whsec_b"]), Event)
