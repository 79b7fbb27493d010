"""External ids: names that callers give their batches, each once in its organization.

An id is free again once every post of its batch is canceled. It stays taken when retention deletes the batch.
"""

from __future__ import annotations

from typing import NamedTuple

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access.authentication import Scope
from socialpub.domain.access.idempotency import EarlierBatchError
from socialpub.domain.posts import content_hash
from socialpub.domain.schemas.errors import TakenExternalId
from socialpub.domain.schemas.posts import BatchRequest, Target
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance


class _HolderPost(NamedTuple):
    """Post of the batch that has the external id."""

    id: str
    profile: str
    account: str
    platform: str
    thread_of: str | None
    status: str


class _Holder(NamedTuple):
    """Batch that has the external id, with the hash of its content.

    It has no posts once retention has deleted them.
    """

    batch: str
    content: str
    posts: list[_HolderPost]


def check(scope: Scope, request: BatchRequest) -> None:
    """Raise unless the external id of the request, if any, is free.

    Raises EarlierBatchError if its batch has the same content, else ApiError `external_id.taken`.
    """
    holder = _find_holder(scope, request)
    if holder is None:
        return
    if _has_same_content(scope, request, holder):
        raise EarlierBatchError(holder.batch)
    raise _build_error(scope, request, holder)


def check_content(scope: Scope, request: BatchRequest) -> None:
    """Raise ApiError `external_id.taken` if a batch with other content has the external id."""
    holder = _find_holder(scope, request)
    if holder and not _has_same_content(scope, request, holder):
        raise _build_error(scope, request, holder)


def check_repeat(scope: Scope, request: BatchRequest) -> None:
    """Raise EarlierBatchError if a batch with the same content has the external id."""
    holder = _find_holder(scope, request)
    if holder and _has_same_content(scope, request, holder):
        raise EarlierBatchError(holder.batch)


def find_batch(scope: Scope, external_id: str) -> str | None:
    """Find the batch that has the id; None if every post of it is canceled."""
    holder = _find_by_id(scope, external_id)
    return None if holder is None else holder.batch


def _find_holder(scope: Scope, request: BatchRequest) -> _Holder | None:
    """Find the batch that has the id of the request, unless every post of it is canceled."""
    return None if request.external_id is None else _find_by_id(scope, request.external_id)


def _find_by_id(scope: Scope, external_id: str) -> _Holder | None:
    found = sql.fetch_one(acceptance.FIND_EXTERNAL_ID, (scope.organization, external_id))
    if found is None:
        return None
    batch, content, posts = found
    holder = _Holder(batch, content, [_HolderPost(*post) for post in sql.load_json(posts)])
    is_canceled = holder.posts and all(post.status == "canceled" for post in holder.posts)
    return None if is_canceled else holder


def _has_same_content(scope: Scope, request: BatchRequest, holder: _Holder) -> bool:
    """Return whether the request would publish what the batch was accepted with.

    A target that names a platform means the account that it meant then: others may be connected since.
    """
    if not holder.posts or len(_list_visible(scope, holder)) < len(holder.posts):
        return False
    posts = dict(enumerate(post for post in holder.posts if post.thread_of is None))  # by target
    accounts = [_find_account(target, posts.get(position)) for position, target in enumerate(request.targets)]
    media = content_hash.load_media(scope, request)
    return content_hash.hash_content(request, accounts, media) == holder.content


def _find_account(target: Target, post: _HolderPost | None) -> str:
    if target.account_id is not None:
        return target.account_id
    return post.account if post and post.platform == target.platform else ""


def _list_visible(scope: Scope, holder: _Holder) -> list[_HolderPost]:
    """List the posts in the scope."""
    return [post for post in holder.posts if scope.profile in (None, post.profile) and scope.has_account(post.account)]


def _build_error(scope: Scope, request: BatchRequest, holder: _Holder) -> ApiError:
    if not holder.posts:
        return rule_error(
            "external_id.taken",
            f"The posts of the batch with the external id {request.external_id} were deleted after their retention.",
            platform_response=TakenExternalId(batchId=holder.batch, postIds=[]),
        )
    visible = _list_visible(scope, holder)
    taken: TakenExternalId = {"batchId": holder.batch, "postIds": [post.id for post in visible]}
    return rule_error(
        "external_id.taken",
        f"The batch {holder.batch} has the external id {request.external_id}, with other content." if visible else None,
        platform_response=taken if visible else None,
    )
