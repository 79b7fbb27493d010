"""Bulk insertion of post rows with any status, for tests of the post log."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from peewee import fn

from socialpub.domain.context.app_context import AppContext
from socialpub.store import casefold, search
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, Batch, Organization, Post, Profile
from tests.support.fixed_clock import NOON

Row = dict[str, Any]
_steps = itertools.count()


def insert_posts(service: AppContext, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Insert posts in one write: each names organization, profile and account, the rest has defaults."""
    whole = [_whole(service, row) for row in rows]

    def write(tx: Tx) -> None:
        for row in whole:
            Batch.insert(id=row["batch"], organization=row["organization"], created_at=0).on_conflict_ignore().execute()
            newest = Post.select(fn.MAX(Post.created_at)).where(Post.organization == row["organization"]).scalar()
            search.record_clock_skew(newest, row["created_at"])
            row["number"] = Post.insert(**row).execute()

    service.write(write).result()
    return whole


def index_posts(service: AppContext, posts: int) -> None:
    """Put so many posts into the search's indexes, `search.INDEX_BATCH` in a write."""
    for _ in range(posts // search.INDEX_BATCH):
        service.write(lambda tx: search.index_batch()).result()


def _whole(service: AppContext, given: Mapping[str, Any]) -> Row:
    made: Row = {
        "id": service.runtime.ids.uuid(),
        "batch": service.runtime.ids.uuid(),
        "position": next(_steps),
        "platform": "bluesky",
        "status": "published",
        "text": "Hello",
        "media": "[]",
        "options": "{}",
        "created_at": NOON + next(_steps),
    } | dict(given)
    return made | {"text_fold": casefold.fold_for_storage(made["text"]), "updated_at": made["created_at"]}


def insert_owner(service: AppContext, organization: str, profile: str) -> None:
    """An organization and a profile, where they are not there yet."""

    def write(tx: Tx) -> None:
        Organization.insert(id=organization, name="", created_at=0).on_conflict_ignore().execute()
        known = {"name": "", "slug": profile, "created_at": 0, "updated_at": 0}
        Profile.insert(id=profile, organization=organization, **known).on_conflict_ignore().execute()

    service.write(write).result()


def insert_account(service: AppContext, organization: str, profile: str, platform: str) -> str:
    """The id of a new account that nothing can be published to."""
    row = {
        "id": service.runtime.ids.uuid(),
        "organization": organization,
        "profile": profile,
        "platform": platform,
        "platform_account_id": f"{platform}-{next(_steps)}",
        "created_at": 0,
        "updated_at": 0,
    }
    service.write(lambda tx: Account.insert(**row).execute()).result()
    return str(row["id"])
