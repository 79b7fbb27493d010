"""Parts of the API: posts, batches, drafts, accounts, media, slots, webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from socialpub_client import content, models
from socialpub_client.content import MediaLike, TargetLike
from socialpub_client.engine import Answer, format_time, given, read, read_list, read_versioned, segment
from socialpub_client.messages import Progress, Source, Steps
from socialpub_client.operations import (
    PageFeed,
    Resource,
    batch_operation,
    listing,
    operation,
    read_batch,
    wait_for_batch,
)

if TYPE_CHECKING:
    from socialpub_client.results import Check

Json = Mapping[str, Any]
Texts = str | Iterable[str]
Period = tuple[datetime | str | None, datetime | str | None]


class PostMethods(Resource):
    """Posts: publish, check, list and change them."""

    def _publish(self, body: Json, wait: float, idempotency_key: str | None) -> Steps[models.BatchData]:
        answer = yield from self.engine.request(
            "POST", "/v1/posts", json=body, wait=wait, idempotency_key=idempotency_key
        )
        return read(models.BatchData.parse, answer)

    @batch_operation
    def publish(
        self,
        text: str | None = None,
        *,
        to: TargetLike | Iterable[TargetLike],
        media: Sequence[MediaLike] = (),
        at: datetime | str | None = None,
        slot: str | None = None,
        first_comment: str | None = None,
        thread: Sequence[Json] | None = None,
        external_id: str | None = None,
        on_duplicate: str | None = None,
        idempotency_key: str | None = None,
        wait: float = 25,
    ) -> Steps[models.BatchData]:
        """Publish now or `at` a time on each target: a platform, an account's id, a `Target`.

        `wait`: the seconds that the answer may wait for the platforms. A batch of which a part failed is an answer.
        Raises PreflightFailed if the content breaks a rule: nothing was sent.
        """
        body = yield from content.build_content(
            self.engine,
            text,
            to=to,
            media=media,
            at=at,
            slot=slot,
            first_comment=first_comment,
            thread=thread,
            external_id=external_id,
            on_duplicate=on_duplicate,
        )
        return (yield from self._publish(body, wait, idempotency_key))

    @batch_operation
    def publish_and_wait(
        self,
        text: str | None = None,
        *,
        to: TargetLike | Iterable[TargetLike],
        media: Sequence[MediaLike] = (),
        at: datetime | str | None = None,
        slot: str | None = None,
        first_comment: str | None = None,
        thread: Sequence[Json] | None = None,
        external_id: str | None = None,
        on_duplicate: str | None = None,
        idempotency_key: str | None = None,
        timeout: float = 300,
    ) -> Steps[models.BatchData]:
        """Publish, and return the batch once every target has ended.

        Raises WaitTimedOut with the batch as it is after `timeout` seconds.
        """
        body = yield from content.build_content(
            self.engine,
            text,
            to=to,
            media=media,
            at=at,
            slot=slot,
            first_comment=first_comment,
            thread=thread,
            external_id=external_id,
            on_duplicate=on_duplicate,
        )
        begun = self.engine.runtime.monotonic()
        batch = yield from self._publish(body, min(timeout, 25), idempotency_key)
        return (yield from wait_for_batch(self.engine, batch, timeout, begun))

    @operation
    def check(
        self,
        text: str | None = None,
        *,
        to: TargetLike | Iterable[TargetLike],
        media: Sequence[MediaLike] = (),
        at: datetime | str | None = None,
        slot: str | None = None,
        first_comment: str | None = None,
        thread: Sequence[Json] | None = None,
        external_id: str | None = None,
        on_duplicate: str | None = None,
        deep: bool | None = None,
        plan: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[Check]:
        """Check content without publishing. Files are uploaded: some checks need their bytes.

        `plan`: if all is valid, return a plan, which `publish_plan` publishes as it was checked.
        """
        body = yield from content.build_content(
            self.engine,
            text,
            to=to,
            media=media,
            at=at,
            slot=slot,
            first_comment=first_comment,
            thread=thread,
            external_id=external_id,
            on_duplicate=on_duplicate,
        )
        asked = body | given(deep=deep, plan=plan or None)
        answer = yield from self.engine.request(
            "POST", "/v1/posts/validate", json=asked, idempotency_key=idempotency_key
        )
        from socialpub_client.results import Check  # makes the classes of answers, as this answer does

        return read(Check.parse, answer)

    @batch_operation
    def publish_plan(self, plan: str, *, wait: float = 25) -> Steps[models.BatchData]:
        """Publish what was checked when the plan was made. The same plan again is the same batch."""
        return (yield from self._publish({"plan": plan}, wait, plan))

    @listing
    def list(
        self,
        *,
        status: Texts = (),
        platform: Texts = (),
        error_code: Texts = (),
        account: str | None = None,
        q: str | None = None,
        batch: str | None = None,
        external_id: Texts = (),
        external_id_prefix: str | None = None,
        scheduled: Period = (None, None),
        order: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> PageFeed[models.Post]:
        """List posts, newest first. `scheduled`: after the first and before the second time."""
        params = {
            "status": status,
            "platform": platform,
            "errorCode": error_code,
            "accountId": account,
            "q": q,
            "batchId": batch,
            "externalId": external_id,
            "externalIdPrefix": external_id_prefix,
            "scheduledAfter": scheduled[0],
            "scheduledBefore": scheduled[1],
            "order": order,
            "limit": limit,
            "cursor": cursor,
            "profileId": self.engine.profile,
        }
        return PageFeed(self.engine, "/v1/posts", models.Post.parse, params)

    @operation
    def get(self, id: str) -> Steps[models.PostDetail]:
        """Read a post with its options and attempts. Its `etag` is what `if_match` takes."""
        answer = yield from self.engine.request("GET", f"/v1/posts/{segment(id)}", params=self._scope)
        return read_versioned(models.PostDetail.parse, answer)

    @operation
    def edit(
        self,
        id: str,
        *,
        text: str | None = None,
        media: Sequence[MediaLike] | None = None,
        options: Json | None = None,
        at: datetime | str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.Post]:
        """Change a queued post; what is None stays. `if_match`: only if it has this `etag`."""
        items = None if media is None else (yield from content.build_media(self.engine, media))
        body = given(text=text, media=items, options=options, scheduledAt=None if at is None else format_time(at))
        return read(models.Post.parse, (yield from self._change("PATCH", id, "", body, if_match, idempotency_key)))

    @operation
    def cancel(
        self, id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Steps[models.Canceled]:
        """Cancel a queued post."""
        return read(models.Canceled.parse, (yield from self._change("DELETE", id, "", None, if_match, idempotency_key)))

    @operation
    def retry(
        self,
        id: str,
        *,
        at: datetime | str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.Post]:
        """Try a failed post again, now or `at` a time."""
        body = given(scheduledAt=None if at is None else format_time(at))
        return read(models.Post.parse, (yield from self._change("POST", id, "/retry", body, if_match, idempotency_key)))

    @operation
    def settle(
        self,
        id: str,
        *,
        published: bool,
        uri: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.Post]:
        """Say whether a post with an unknown outcome is on its platform, as a person found."""
        body = given(published=published, uri=uri)
        return read(
            models.Post.parse, (yield from self._change("POST", id, "/settle", body, if_match, idempotency_key))
        )

    def _change(
        self, method: str, id: str, action: str, body: Json | None, if_match: str | None, key: str | None
    ) -> Steps[Answer]:
        return (yield from self._write(method, f"/v1/posts/{segment(id)}{action}", body, if_match, key))


class BatchMethods(Resource):
    """Batches: all posts of one publish request."""

    @batch_operation
    def get(self, id: str, wait: float = 0) -> Steps[models.BatchData]:
        """Read a batch as it is now; `wait`: the seconds that the answer may wait for its end."""
        return (yield from read_batch(self.engine, id, wait=wait))

    @listing
    def list(
        self,
        *,
        status: Texts = (),
        platform: Texts = (),
        external_id: Texts = (),
        external_id_prefix: str | None = None,
        scheduled: Period = (None, None),
        limit: int = 100,
        cursor: str | None = None,
    ) -> PageFeed[models.BatchData]:
        """List batches, newest first."""
        params = {
            "status": status,
            "platform": platform,
            "externalId": external_id,
            "externalIdPrefix": external_id_prefix,
            "scheduledAfter": scheduled[0],
            "scheduledBefore": scheduled[1],
            "limit": limit,
            "cursor": cursor,
            "profileId": self.engine.profile,
        }
        return PageFeed(self.engine, "/v1/batches", models.BatchData.parse, params)

    @batch_operation
    def edit(
        self,
        id: str,
        *,
        text: str | None = None,
        media: Sequence[MediaLike] | None = None,
        at: datetime | str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.BatchData]:
        """Change what the queued posts of a batch share: text and media, and the time of all."""
        items = None if media is None else (yield from content.build_media(self.engine, media))
        body = given(text=text, media=items, scheduledAt=None if at is None else format_time(at))
        answer = yield from self._write("PATCH", f"/v1/batches/{segment(id)}", body, if_match, idempotency_key)
        return read_versioned(models.BatchData.parse, answer)

    @operation
    def cancel(
        self, id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Steps[models.CanceledBatch]:
        """Cancel the queued posts of a batch."""
        answer = yield from self._write("DELETE", f"/v1/batches/{segment(id)}", None, if_match, idempotency_key)
        return read(models.CanceledBatch.parse, answer)


class DraftMethods(Resource):
    """Drafts: publish requests of which anything may be missing, and their approval."""

    @listing
    def list(self, *, status: str | None = None, limit: int = 100, cursor: str | None = None) -> PageFeed[models.Draft]:
        """List drafts, newest first."""
        params = {"status": status, "limit": limit, "cursor": cursor, **self._scope}
        return PageFeed(self.engine, "/v1/drafts", models.Draft.parse, params)

    @operation
    def get(self, id: str) -> Steps[models.Draft]:
        """Read a draft. Its `etag` is what `if_match` takes."""
        answer = yield from self.engine.request("GET", f"/v1/drafts/{segment(id)}", params=self._scope)
        return read_versioned(models.Draft.parse, answer)

    @operation
    def create(
        self, content: Json, *, title: str | None = None, idempotency_key: str | None = None
    ) -> Steps[models.Draft]:
        """Create a draft; `content`: the fields of a publish request, as the API spells them."""
        body = {**content, **given(title=title)}
        answer = yield from self.engine.request("POST", "/v1/drafts", json=body, idempotency_key=idempotency_key)
        return read_versioned(models.Draft.parse, answer)

    @operation
    def edit(
        self,
        id: str,
        *,
        if_match: str,
        content: Json | None = None,
        title: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.Draft]:
        """Replace the content of a draft, or its title."""
        body = given(content=content, title=title)
        return (yield from self._act("PATCH", id, "", body, if_match, idempotency_key))

    @operation
    def delete(
        self, id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Steps[models.Deleted]:
        """Delete a draft."""
        return read(models.Deleted.parse, (yield from self._ask("DELETE", id, "", None, if_match, idempotency_key)))

    @operation
    def propose(
        self, id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Steps[models.Draft]:
        """Propose a draft for approval."""
        return (yield from self._act("POST", id, "/propose", None, if_match, idempotency_key))

    @operation
    def approve(self, id: str, *, if_match: str, idempotency_key: str | None = None) -> Steps[models.Draft]:
        """Approve a draft as it was read with this `etag`."""
        return (yield from self._act("POST", id, "/approve", None, if_match, idempotency_key))

    @operation
    def return_(
        self, id: str, *, note: str, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Steps[models.Draft]:
        """Return a draft to its author with a note."""
        return (yield from self._act("POST", id, "/return", {"note": note}, if_match, idempotency_key))

    @batch_operation
    def publish(self, id: str, *, wait: float = 25, idempotency_key: str | None = None) -> Steps[models.BatchData]:
        """Publish a draft."""
        answer = yield from self.engine.request(
            "POST",
            f"/v1/drafts/{segment(id)}/publish",
            params=self._scope,
            wait=wait,
            idempotency_key=idempotency_key,
        )
        return read(models.BatchData.parse, answer)

    @operation
    def link(self, id: str, *, idempotency_key: str | None = None) -> Steps[models.ApprovalLink]:
        """Make a link by which a person without a login decides on a draft."""
        return read(models.ApprovalLink.parse, (yield from self._ask("POST", id, "/link", None, None, idempotency_key)))

    @operation
    def revoke_link(self, id: str, *, idempotency_key: str | None = None) -> Steps[models.Deleted]:
        """Revoke the link of a draft."""
        return read(models.Deleted.parse, (yield from self._ask("DELETE", id, "/link", None, None, idempotency_key)))

    def _act(
        self, method: str, id: str, action: str, body: Json | None, if_match: str | None, key: str | None
    ) -> Steps[models.Draft]:
        return read_versioned(models.Draft.parse, (yield from self._ask(method, id, action, body, if_match, key)))

    def _ask(
        self, method: str, id: str, action: str, body: Json | None, if_match: str | None, key: str | None
    ) -> Steps[Answer]:
        return (yield from self._write(method, f"/v1/drafts/{segment(id)}{action}", body, if_match, key))


class AccountMethods(Resource):
    """Connected accounts."""

    @operation
    def list(self, *, platform: str | None = None, status: str | None = None) -> Steps[tuple[models.Account, ...]]:
        """List accounts, oldest first."""
        params = {"platform": platform, "status": status, **self._scope}
        answer = yield from self.engine.request("GET", "/v1/accounts", params=params)
        return read_list(models.Account.parse, answer)

    @operation
    def get(self, id: str) -> Steps[models.Account]:
        """Read an account."""
        return (yield from self.engine.get(f"/v1/accounts/{segment(id)}", models.Account.parse, **self._scope))

    @operation
    def boards(self, id: str) -> Steps[models.BoardList]:
        """List the boards of a Pinterest account."""
        path = f"/v1/accounts/{segment(id)}/pinterest/boards"
        return (yield from self.engine.get(path, models.BoardList.parse, **self._scope))

    @operation
    def choose_board(self, id: str, board: str, *, idempotency_key: str | None = None) -> Steps[models.DefaultBoard]:
        """Set the board of pins that name none."""
        path = f"/v1/accounts/{segment(id)}/pinterest/default-board"
        answer = yield from self._write("PATCH", path, {"boardId": board}, None, idempotency_key)
        return read(models.DefaultBoard.parse, answer)


class MediaMethods(Resource):
    """Files for posts."""

    @operation
    def upload(
        self,
        source: Source,
        *,
        alt: str | None = None,
        name: str | None = None,
        progress: Progress | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.MediaFile]:
        """Upload a file: a path, bytes, an open file, or an iterator of pieces, which is sent once.

        `progress` is called with the bytes sent and all bytes, None where they are not known.
        """
        return (
            yield from content.upload_media(
                self.engine, source, alt=alt, name=name, progress=progress, idempotency_key=idempotency_key
            )
        )

    @listing
    def list(self, *, limit: int = 100, cursor: str | None = None) -> PageFeed[models.MediaFile]:
        """List files, newest first."""
        params = {"limit": limit, "cursor": cursor, **self._scope}
        return PageFeed(self.engine, "/v1/media", models.MediaFile.parse, params)

    @operation
    def get(self, id: str) -> Steps[models.MediaFile]:
        """Read what is known of a file."""
        return (yield from self.engine.get(f"/v1/media/{segment(id)}", models.MediaFile.parse, **self._scope))

    @operation
    def describe(self, id: str, alt: str, *, idempotency_key: str | None = None) -> Steps[models.MediaFile]:
        """Change the description of a file that no queued post needs."""
        answer = yield from self._write("PATCH", f"/v1/media/{segment(id)}", {"altText": alt}, None, idempotency_key)
        return read(models.MediaFile.parse, answer)

    @operation
    def delete(self, id: str, *, idempotency_key: str | None = None) -> Steps[models.Deleted]:
        """Delete a file that no queued post needs."""
        answer = yield from self._write("DELETE", f"/v1/media/{segment(id)}", None, None, idempotency_key)
        return read(models.Deleted.parse, answer)

    @operation
    def find(self, *, sha256: str) -> Steps[models.MediaFile | None]:
        """Return a stored file with these bytes, or None."""
        return (yield from content.find_media(self.engine, sha256))


class SlotMethods(Resource):
    """Weekly times at which posts go out."""

    @operation
    def get(self) -> Steps[models.ProfileSlots]:
        """Read the slots of the profile."""
        return (yield from self.engine.get("/v1/slots", models.ProfileSlots.parse, **self._scope))

    @operation
    def define(
        self, zone: str, weekly: Sequence[Json], *, idempotency_key: str | None = None
    ) -> Steps[models.ProfileSlots]:
        """Replace the slots of the profile; each is `{"day": "mon", "time": "09:30"}`."""
        body = {"zone": zone, "weekly": list(weekly), **given(profileId=self.engine.profile)}
        answer = yield from self.engine.request("PUT", "/v1/slots", json=body, idempotency_key=idempotency_key)
        return read(models.ProfileSlots.parse, answer)


class WebhookMethods(Resource):
    """Webhook endpoints and their deliveries."""

    @operation
    def create(
        self,
        url: str,
        *,
        events: Iterable[str] = (),
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.SignedEndpoint]:
        """Register an endpoint; without `events` it gets all. Only this answer has the secret."""
        body = given(url=url, events=list(events) or None, description=description)
        answer = yield from self.engine.request(
            "POST", "/v1/webhook-endpoints", json=body, idempotency_key=idempotency_key
        )
        return read(models.SignedEndpoint.parse, answer)

    @operation
    def list(self) -> Steps[tuple[models.Endpoint, ...]]:
        """List endpoints, oldest first."""
        answer = yield from self.engine.request("GET", "/v1/webhook-endpoints")
        return read_list(models.Endpoint.parse, answer)

    @operation
    def get(self, id: str) -> Steps[models.Endpoint]:
        """Read an endpoint."""
        return (
            yield from self.engine.get(f"/v1/webhook-endpoints/{segment(id)}", models.Endpoint.parse, **self._scope)
        )

    @operation
    def change(
        self,
        id: str,
        *,
        url: str | None = None,
        events: Iterable[str] | None = None,
        description: str | None = None,
        active: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[models.Endpoint]:
        """Change an endpoint; what is None stays."""
        body = given(url=url, events=None if events is None else [*events], description=description, active=active)
        return read(models.Endpoint.parse, (yield from self._ask("PATCH", id, "", body, idempotency_key)))

    @operation
    def delete(self, id: str, *, idempotency_key: str | None = None) -> Steps[models.Deleted]:
        """Delete an endpoint."""
        return read(models.Deleted.parse, (yield from self._ask("DELETE", id, "", None, idempotency_key)))

    @operation
    def test(
        self, id: str, *, type: str | None = None, data: Json | None = None, idempotency_key: str | None = None
    ) -> Steps[models.WebhookTestResult]:
        """Send a sample event to an endpoint now."""
        body = given(type=type, data=data)
        answer = yield from self._ask("POST", id, "/test", body, idempotency_key)
        return read(models.WebhookTestResult.parse, answer)

    @operation
    def rotate(self, id: str, *, idempotency_key: str | None = None) -> Steps[models.SignedEndpoint]:
        """Make a new secret; deliveries are signed with the old one too for a time."""
        answer = yield from self._ask("POST", id, "/rotate-secret", None, idempotency_key)
        return read(models.SignedEndpoint.parse, answer)

    @operation
    def redeliver(
        self, id: str, *, since: datetime | str, status: str | None = None, idempotency_key: str | None = None
    ) -> Steps[models.Redelivered]:
        """Deliver events of an endpoint since a time again: failed ones, or those of `status`."""
        body = given(since=format_time(since), status=status)
        answer = yield from self._ask("POST", id, "/redeliver", body, idempotency_key)
        return read(models.Redelivered.parse, answer)

    @listing
    def deliveries(
        self,
        *,
        endpoint: str | None = None,
        type: str | None = None,
        status: str | None = None,
        since: datetime | str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> PageFeed[models.Delivery]:
        """List deliveries, newest first."""
        params = {
            "endpointId": endpoint,
            "type": type,
            "status": status,
            "since": since,
            "limit": limit,
            "cursor": cursor,
            **self._scope,
        }
        return PageFeed(self.engine, "/v1/webhook-deliveries", models.Delivery.parse, params)

    @operation
    def delivery(self, id: str) -> Steps[models.DeliveryDetail]:
        """Read a delivery with its event and all calls."""
        path = f"/v1/webhook-deliveries/{segment(id)}"
        return (yield from self.engine.get(path, models.DeliveryDetail.parse, **self._scope))

    @operation
    def redeliver_one(self, id: str, *, idempotency_key: str | None = None) -> Steps[models.Delivery]:
        """Deliver one event again."""
        path = f"/v1/webhook-deliveries/{segment(id)}/redeliver"
        answer = yield from self._write("POST", path, None, None, idempotency_key)
        return read(models.Delivery.parse, answer)

    def _ask(self, method: str, id: str, action: str, body: Json | None, key: str | None) -> Steps[Answer]:
        return (yield from self._write(method, f"/v1/webhook-endpoints/{segment(id)}{action}", body, None, key))
