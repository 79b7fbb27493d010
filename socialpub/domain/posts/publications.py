"""Publications: the posts of one batch together, as the dashboard's lists show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import thumbnails
from socialpub.domain.media.files import THUMBNAIL_EDGES
from socialpub.store.engine import sql
from socialpub.store.queries import publications
from socialpub.store.rows import PostStatus

COUNTED_MAX = 99  # posts of a status, beyond which a filter says "99+"
TARGETS_MAX = 2000  # on a page; a batch has at most 25


class PublicationTarget(NamedTuple):
    """A post of a batch, in the column order of the SQL; times are in milliseconds.

    `first`: the id of the first post of its thread, or its own.
    """

    batch: str
    id: str
    platform: str
    status: str
    error_code: str | None
    error_rule: str | None
    scheduled_at: int | None
    next_attempt_at: int | None
    url: str | None
    first: str
    thread_position: int | None
    display_name: str | None
    platform_account_id: str

    @property
    def name(self) -> str:
        """The name of the account."""
        return self.display_name or self.platform_account_id


class PublicationAuthor(NamedTuple):
    """Sender of a batch: the name of an API key, or the e-mail of a member."""

    is_key: bool
    name: str


@dataclass
class Publication:
    """A batch: those of its posts that a list has found, and all its targets."""

    batch: str
    posts: list[dict[str, Any]] = field(default_factory=list)
    targets: list[PublicationTarget] = field(default_factory=list)
    author: PublicationAuthor | None = None
    picture: str | None = None  # the path of its thumbnail on this server

    @property
    def picture_id(self) -> str | None:
        """The id of the first image that is stored here."""
        ids = (ref.get("mediaId") for ref in self.posts[0]["mediaRefs"] if ref["kind"] == "image")
        return next(filter(None, ids), None)


def group(service: AppContext, scope: Scope, posts: Iterable[dict[str, Any]]) -> list[Publication]:
    """Group posts, as the API shows them, by batch, in the order of their first posts.

    Within a batch the pieces of a thread follow the others, in order.
    """
    found: dict[str, Publication] = {}
    for post in posts:
        found.setdefault(post["batchId"], Publication(post["batchId"])).posts.append(post)
    for each in found.values():
        each.posts.sort(key=lambda post: post["threadPosition"] or 0)
    targets = load_targets(scope, found)
    authors = load_authors(scope, found)
    pictures = load_pictures(scope, [id for each in found.values() if (id := each.picture_id)])
    for batch, each in found.items():
        each.targets, each.author = targets[batch], authors.get(batch)
        each.picture = pictures.get(each.picture_id or "")
    return list(found.values())


def count_by_status(scope: Scope) -> dict[str, int]:
    """Count the posts of each status, up to one more than `COUNTED_MAX`."""
    statuses = sql.dump_json(get_args(PostStatus))
    values = (scope.organization, scope.profile, statuses, COUNTED_MAX + 1)
    return dict(sql.fetch_all(publications.COUNT_BY_STATUS, values))


def load_targets(scope: Scope, batches: Iterable[str]) -> Mapping[str, list[PublicationTarget]]:
    """Load the targets of batches that the scope may see, in the order of the requests."""
    found = defaultdict[str, list[PublicationTarget]](list)
    values = (sql.dump_json(list(batches)), scope.organization, scope.profile, TARGETS_MAX)
    for row in sql.fetch_all(publications.FIND_TARGETS, values):
        found[row[0]].append(PublicationTarget(*row))
    return found


def load_authors(scope: Scope, batches: Iterable[str]) -> dict[str, PublicationAuthor]:
    """Load who sent batches, while the audit log still has it."""
    found: dict[str, PublicationAuthor] = {}
    values = (scope.organization, sql.dump_json(list(batches)))
    for batch, is_key, name in sql.fetch_all(publications.FIND_AUTHORS, values):
        if name:
            found.setdefault(batch, PublicationAuthor(bool(is_key), name))
    return found


def load_pictures(scope: Scope, ids: list[str], edge: int = THUMBNAIL_EDGES[0]) -> dict[str, str]:
    """Return the paths of the thumbnails of those images that are still stored, by their ids."""
    rows = sql.fetch_all(publications.FIND_PICTURES, (scope.organization, sql.dump_json(ids)))
    return {id: thumbnails.build_path(id, edge) for (id,) in rows}
