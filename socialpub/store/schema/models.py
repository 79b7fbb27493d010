"""The tables and their indexes. Times are epoch milliseconds, structures are JSON text.

`migrations/` makes the same schema, and a test compares the two. `rows.py` is written from this file by `make fix`.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from peewee import (
    SQL,
    AutoField,
    BigIntegerField,
    BooleanField,
    FloatField,
    ForeignKeyField,
    IntegerField,
    TextField,
    fn,
)

from socialpub.store.database import BaseModel
from socialpub.store.engine.id_fields import SurrogateKeyField, UuidField
from socialpub.store.engine.locks import StartError
from socialpub.store.jobs.leases import Job
from socialpub.store.queries import events
from socialpub.store.queries.id_columns import select_column

if TYPE_CHECKING:  # `rows.py` is written from this file
    from socialpub.store import rows

R = TypeVar("R", covariant=True)
COLUMN_WORDS = {  # columns that hold one of some words
    "AccountStatus": ("active", "expiring", "revoked"),
    "MediaKind": ("image", "video"),
    "DeliveryStatus": ("pending", "succeeded", "failed"),
    "PostStatus": ("queued", "validated", "publishing", "published", "failed", "rejected", "canceled"),
}


class HasRowType(Protocol[R]):
    """A model that declares the type of its rows, from which `rows.py` is written."""

    @property
    def row(self) -> type[R]: ...


def reference_to(model: type[BaseModel], name: str, **options: Any) -> ForeignKeyField:
    """A column that holds another row's id; reading it gives the id and never runs a query."""
    return ForeignKeyField(model, column_name=name, lazy_load=False, **({"index": False, "field": "id"} | options))


def number_reference_to(model: type[BaseModel], name: str) -> SurrogateKeyField:
    """A column that holds another row's number; it is given and told as the id."""
    return SurrogateKeyField(model, column_name=name, field="number", lazy_load=False, index=False)


class Instance(BaseModel):
    """One row: which server run owns the file (`epoch`), and whether publishing is paused."""

    row: ClassVar[type[rows.InstanceRow]]
    id = IntegerField(primary_key=True)
    uid = TextField(default="")  # of this database, whatever file it is in; a copy that is resumed gets its own
    epoch = IntegerField(default=0)
    beat = IntegerField(default=0)  # counted up at each start, after changes, and hourly; with `mark` also in
    mark = TextField(default="")  # {data_dir}/instance.state and outside it, which tells a copied or restored file
    paused = TextField(null=True)  # why; null: publishing
    moved = TextField(null=True)  # JSON: it is to run elsewhere from now on, as `socialpub move` left it
    seen_at = BigIntegerField(default=0)
    key_id = TextField(null=True)  # of the master key that seals
    client_key = TextField(null=True)  # sealed: what this server signs with where it is an OAuth client by its address
    signing_key = TextField(null=True)  # sealed: what cursors and addresses of media are signed with


class Organization(BaseModel):
    row: ClassVar[type[rows.OrganizationRow]]
    number = AutoField()  # what rows of which there are many call it
    id = TextField(unique=True)
    name = TextField()
    tier = TextField(default="self_host")
    created_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)  # its rows stay for the record, until retention removes them


class Profile(BaseModel):
    row: ClassVar[type[rows.ProfileRow]]
    number = AutoField()
    id = TextField(unique=True)
    organization = reference_to(Organization, "organization")
    name = TextField()
    slug = TextField()
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)

    class Meta:
        indexes = ((("organization", "slug"), True),)


class User(BaseModel):
    row: ClassVar[type[rows.UserRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    email = TextField(unique=True)
    role = TextField()  # owner, admin, member
    password = TextField(null=True)  # argon2id
    totp = TextField(null=True)  # the sealed secret of the app that makes their codes; null: the password is enough
    totp_step = BigIntegerField(default=0)  # of the last code that was taken
    zone = TextField(null=True)  # the time zone that they chose; null: that of the browser, which its session knows
    created_at = BigIntegerField()


class Session(BaseModel):
    """A signed-in browser. The id is the SHA-256 of the cookie's value."""

    id = TextField(primary_key=True)
    user = reference_to(User, "user", index=True)
    profile = reference_to(Profile, "profile", null=True)  # whose things the pages show; null: everybody's
    csrf = TextField()
    address = TextField(default="")  # where it signed in from
    agent = TextField(default="")  # what the browser calls itself
    zone = TextField(null=True)  # of the browser
    proved_at = BigIntegerField(default=0)  # when the password was last given
    kept = TextField(null=True)  # JSON: the form that was on its way when the session before ended
    created_at = BigIntegerField()
    seen_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class Device(BaseModel):
    """A browser that has signed in before. The id is the SHA-256 of its cookie's value."""

    id = TextField(primary_key=True)
    user = reference_to(User, "user", index=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class RecoveryCode(BaseModel):
    """In place of an app's code, once; the id is the SHA-256 of its user and the code."""

    id = TextField(primary_key=True)
    user = reference_to(User, "user", index=True)


class Invitation(BaseModel):
    """Somebody may become a member, by a link that works once; `digest` is the SHA-256 of its token."""

    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    email = TextField()
    role = TextField()
    digest = TextField(unique=True)
    invited_by = reference_to(User, "invited_by", index=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class RemovedUser(BaseModel):
    """Somebody who was removed: a name for what they did, for as long as that is remembered."""

    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    email = TextField()
    removed_at = BigIntegerField(index=True)

    class Meta:
        table_name = "former_user"


class ApiKey(BaseModel):
    """A key's record; `digest` is the SHA-256 of the key, the key itself is nowhere."""

    row: ClassVar[type[rows.ApiKeyRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    profile = reference_to(Profile, "profile", null=True)
    name = TextField()
    prefix = TextField()
    last4 = TextField()
    digest = TextField(unique=True)
    created_at = BigIntegerField()
    last_used_at = BigIntegerField(null=True)
    revoked_at = BigIntegerField(null=True)


class Account(BaseModel):
    """A connected account. `secret` is sealed tokens; null once disconnected."""

    row: ClassVar[type[rows.AccountRow]]
    number = AutoField()
    id = TextField(unique=True)
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile")
    platform = TextField()
    platform_account_id = TextField()
    display_name = TextField(null=True)
    status = TextField(default="active", choices=COLUMN_WORDS["AccountStatus"])
    secret = TextField(null=True)
    token_expires_at = BigIntegerField(null=True)
    renewed_at = BigIntegerField(null=True)  # when the tokens came
    ends_at = BigIntegerField(null=True)  # by then the owner has to connect again; null: the tokens renew themselves
    renewal_at = BigIntegerField(null=True)  # a refresh was begun then, and its end is not known
    extra = TextField(default="{}")
    attention = TextField(null=True)  # JSON {code, message, at}: what the platform refuses, though the token is good
    renewals = TextField(null=True)  # JSON: when the last renewals were asked for
    renewal_refused_at = BigIntegerField(null=True)  # when one was refused as if the app's own credentials were wrong
    renewing = TextField(null=True)  # the run that is asking for new tokens now, which nobody else does meanwhile
    renewing_until = BigIntegerField(null=True)  # for so long: a run that has died keeps nobody waiting for ever
    revoked_reason = TextField(null=True)  # why its authorization is over, while it is
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    disconnected_at = BigIntegerField(null=True)

    class Meta:
        indexes = (
            (("organization", "profile", "platform"), False),
            (("profile", "platform", "platform_account_id"), True),
        )


class PlatformApp(BaseModel):
    """The app that this server is registered as at a platform, typed in by an owner. The id is the platform's name."""

    row: ClassVar[type[rows.PlatformAppRow]]
    id = TextField(primary_key=True)
    client_id = TextField()
    secret = TextField()  # sealed
    known_at = BigIntegerField(null=True)  # when the platform last said that it knows the app; null: it has not
    created_at = BigIntegerField()
    updated_at = BigIntegerField()


class ConnectAttempt(BaseModel):
    """An account about to be connected. The id is the SHA-256 of the state that the platform sends back.

    `session` is the SHA-256 of the session's CSRF token; `choices` are sealed accounts, of which the owner picks.
    """

    row: ClassVar[type[rows.ConnectAttemptRow]]
    id = TextField(primary_key=True)
    session = TextField()
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile")
    platform = TextField()
    secret = TextField()  # sealed: the PKCE verifier and what else the exchange needs
    used_at = BigIntegerField(null=True)
    choices = TextField(null=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class Media(BaseModel):
    """A stored file's record; the bytes are `{data_dir}/media/{2 characters}/{sha256}`, shared by equal files."""

    row: ClassVar[type[rows.MediaRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile", null=True)
    content_type = TextField()
    kind = TextField(choices=COLUMN_WORDS["MediaKind"])
    size_bytes = BigIntegerField()
    sha256 = TextField(index=True)
    width = IntegerField(null=True)
    height = IntegerField(null=True)
    frames = IntegerField(null=True)
    duration_ms = BigIntegerField(null=True)
    frame_rate = FloatField(null=True)
    bit_rate = BigIntegerField(null=True)
    video_codec = TextField(null=True)
    audio_codec = TextField(null=True)
    has_audio = BooleanField(null=True)
    alt_text = TextField(null=True)
    created_at = BigIntegerField()
    used_at = BigIntegerField(default=0)  # when a post needed it last, or is to
    deleted_at = BigIntegerField(null=True)

    class Meta:
        indexes = ((("organization", "created_at", "id"), False),)


Media.add_index(Media.index(Media.used_at, name="media_used").where(SQL("deleted_at IS NULL")))
Media.add_index(Media.index(Media.size_bytes, name="media_kept").where(SQL("deleted_at IS NULL")))
Media.add_index(Media.index(Media.deleted_at, name="media_gone").where(SQL("deleted_at IS NOT NULL")))
Media.add_index(  # `size_bytes > 0` keeps SQLite from taking it for asset ids of an organization
    Media.index(Media.organization, Media.size_bytes, name="media_held").where(
        SQL("deleted_at IS NULL AND size_bytes > 0")
    )
)


class Batch(BaseModel):
    row: ClassVar[type[rows.BatchRow]]
    id = TextField(primary_key=True)
    organization = number_reference_to(Organization, "organization")
    request_id = TextField(null=True)
    created_at = BigIntegerField()
    scheduled_at = BigIntegerField(null=True)

    class Meta:
        without_rowid = True


class Post(BaseModel):
    """One target of one batch: the public row of the post log, and what publishing it needs."""

    row: ClassVar[type[rows.PostRow]]
    number = AutoField()  # in the order of the commits: the searchable text is filed under it (`search.py`)
    id = TextField(unique=True)
    organization = number_reference_to(Organization, "organization")
    profile = number_reference_to(Profile, "profile")
    account = number_reference_to(Account, "account")
    platform = TextField()
    batch = reference_to(Batch, "batch")
    position = IntegerField()
    status = TextField(choices=COLUMN_WORDS["PostStatus"])
    text = TextField()
    text_fold = TextField()  # for searching (`folding.fold`); empty where `lower(text)` is that
    media = TextField()  # the items as mediaRefs shows them
    options = TextField()
    first_comment = TextField(null=True)
    scheduled_at = BigIntegerField(null=True)
    next_attempt_at = BigIntegerField(null=True)
    due_at = BigIntegerField(null=True)  # of the newest attempt, where that is neither scheduled_at nor created_at
    published_at = BigIntegerField(null=True)
    platform_uri = TextField(null=True)
    platform_cid = TextField(null=True)
    url = TextField(null=True)
    first_comment_uri = TextField(null=True)
    first_comment_cid = TextField(null=True)
    error = TextField(null=True)
    error_code = TextField(null=True)
    warnings = TextField(default="[]")
    attempts = IntegerField(default=0)  # begun so far
    tries = IntegerField(default=0)  # of them, since a person last asked for it
    draft_at = BigIntegerField(null=True)  # minted at the first claim, with draft_nonce: what the platform's keys are
    draft_nonce = BigIntegerField(null=True)  # made of, the same in every attempt
    saved = TextField(null=True)  # what `prepare` wants back
    created_at = BigIntegerField()
    updated_at = BigIntegerField()

    class Meta:
        # Where the log's order is asked for, every one has the number after the time: SQLite adds it to each entry.
        indexes = (
            (("organization", "created_at"), False),
            (("profile", "created_at"), False),
            (("organization", "status", "platform", "created_at"), False),
            (("profile", "status", "platform", "created_at"), False),
            (("number", "status", "error_code"), False),
            (("batch", "position"), True),
            (("account", "created_at"), False),
        )


for _owner in (Post.organization, Post.profile):  # the post log probes one of them for each combination of a filter
    Post.add_index(
        Post.index(
            _owner,
            Post.error_code,
            Post.status,
            Post.platform,
            Post.created_at,
            name=f"post_{_owner.column_name}_error_code",
        ).where(SQL("error_code IS NOT NULL"))
    )
    Post.add_index(
        Post.index(_owner, Post.updated_at, name=f"post_{_owner.column_name}_troubled").where(
            SQL("status IN ('failed', 'rejected')")
        )
    )
# SQLite takes these for a statement that has the same condition in the same words (`statements/sweeps.py`).
_IS_OPEN = SQL("status IN ('queued', 'validated', 'publishing')")
Post.add_index(
    Post.index(fn.COALESCE(Post.due_at, Post.scheduled_at, Post.created_at), name="post_open").where(_IS_OPEN)
)
Post.add_index(Post.index(Post.account, Post.number, name="post_open_account").where(_IS_OPEN))
Post.add_index(
    Post.index(Post.account, Post.status, Post.scheduled_at, name="post_scheduled").where(
        SQL("scheduled_at IS NOT NULL")
    )
)


class Attempt(BaseModel):
    """One run of the publishing protocol for a post, as GET /v1/posts/{id} shows it."""

    row: ClassVar[type[rows.AttemptRow]]
    place = AutoField()  # in the order of their beginnings
    id = UuidField()  # which is shown, and nobody asks for
    post = number_reference_to(Post, "post")
    number = IntegerField()
    started_at = BigIntegerField()
    finished_at = BigIntegerField(null=True)
    succeeded = BooleanField(null=True)
    error_code = TextField(null=True)
    error_message = TextField(null=True)
    platform_response = TextField(null=True)

    class Meta:
        indexes = ((("post", "number"), True),)


class Intent(BaseModel):
    """What was about to be sent, written before it was: append-only but for its outcome.

    At most one open intent for a post and step; one remote post belongs to one intent of its account.
    """

    row: ClassVar[type[rows.IntentRow]]
    id = AutoField()
    post = number_reference_to(Post, "post")
    attempt = IntegerField()  # the number of that attempt of the post
    account = number_reference_to(Account, "account")
    step = TextField()  # publish, comment
    number = IntegerField()
    plan = TextField()  # JSON; emptied once its post is published
    epoch = IntegerField()
    intent_at = BigIntegerField()
    sent_at = BigIntegerField(null=True)  # of the newest send
    sends = IntegerField(default=0)
    looks = IntegerField(default=0)
    answered = BooleanField(default=False)  # every send so far got an answer, only not a clear one
    refusal = TextField(null=True)  # the error that it ends with once looking has shown that nothing is there
    outcome = TextField(null=True)  # null: open
    remote = BigIntegerField(null=True)  # the remote post, by the hash of its id (`intents.remote_of`)
    result = TextField(null=True)
    evidence = TextField(null=True)
    settled_at = BigIntegerField(null=True)
    settled_by = TextField(null=True)  # a person's decision

    class Meta:
        indexes = ((("post", "step", "number"), True),)


Intent.add_index(Intent.index(Intent.post, Intent.step, unique=True, name="intent_open").where(SQL("outcome IS NULL")))
Intent.add_index(
    Intent.index(Intent.account, Intent.remote, unique=True, name="intent_remote").where(SQL("remote IS NOT NULL"))
)
Intent.add_index(Intent.index(Intent.account, name="intent_unknown").where(SQL("outcome = 'unknown'")))


class EventTypeField(IntegerField):  # type: ignore[misc]
    """A type of event, of which the row has the number."""

    def db_value(self, value: str) -> int:
        return events.TYPE_NUMBERS[value]

    def python_value(self, value: int) -> str:
        return events.TYPE_NAMES[value]


class Event(BaseModel):
    """What happened, in the order in which it was committed; webhooks and /v1/events read it.

    There are two of each post and more: what their post and its batch tell, or the row's number and time, is not kept.
    """

    number = AutoField()  # with the time and the organization its id (`eventlog.id_of`)
    organization = reference_to(Organization, "organization", field="number")
    profile = reference_to(Profile, "profile", null=True)
    type = EventTypeField()
    # Its number. Whose profile it is then, and that column is empty. No reference, for which all events are read when a
    # post goes.
    post = BigIntegerField(null=True)
    scheduled_at = BigIntegerField(null=True)  # when its post was to go out, where that is told and `data` is empty
    data = TextField(null=True)  # JSON; null where the row of its post tells it (`events.kept_of`)
    request_id = TextField(null=True)  # of a post's event, where that is not the one that made its batch
    created_at = BigIntegerField()

    class Meta:
        indexes = ((("organization", "number"), False),)


Event.add_index(Event.index(Event.post, name="event_error").where(SQL(events.HAS_POST_ERROR)))


class WebhookEndpoint(BaseModel):
    """An address that events are sent to. `secret` and the one before it are sealed."""

    row: ClassVar[type[rows.WebhookEndpointRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    profile = reference_to(Profile, "profile", null=True)
    url = TextField()
    events = TextField(default="[]")  # JSON: the types that are sent; none named: all
    description = TextField(null=True)
    active = BooleanField(default=True)
    secret = TextField()
    previous_secret = TextField(null=True)
    previous_until = BigIntegerField(null=True)  # it signs too, until then
    # Deliveries that were refused with the newer secret and accepted with that one.
    previous_accepted = IntegerField(default=0)
    failing_since = BigIntegerField(null=True)  # every delivery since then has failed
    last_delivery_at = BigIntegerField(null=True)
    last_failure_reason = TextField(null=True)
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)


class WebhookDelivery(BaseModel):
    """One event on its way to one endpoint: written with the event, delivered from here."""

    number = AutoField()
    id = TextField(unique=True)
    endpoint = reference_to(WebhookEndpoint, "endpoint")
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile", null=True)
    event = reference_to(Event, "event", field="number", index=True)
    type = TextField()
    post = TextField(null=True)  # of one post they go out in order, while none is tried again
    status = TextField(default="pending", choices=COLUMN_WORDS["DeliveryStatus"])
    attempts = IntegerField(default=0)
    tries = IntegerField(default=0)  # of them, since it was last asked for
    next_attempt_at = BigIntegerField(null=True)
    last_status_code = IntegerField(null=True)
    last_error = TextField(null=True)
    created_at = BigIntegerField()
    updated_at = BigIntegerField()

    class Meta:
        indexes = ((("organization", "number"), False), (("endpoint", "status", "number"), False))


WebhookDelivery.add_index(
    WebhookDelivery.index(
        WebhookDelivery.endpoint, WebhookDelivery.next_attempt_at, WebhookDelivery.number, name="webhook_delivery_due"
    ).where(SQL("status = 'pending'"))
)


class WebhookAttempt(BaseModel):
    """One call to an endpoint and what it answered."""

    id = TextField(primary_key=True)
    delivery = reference_to(WebhookDelivery, "delivery", field="number", index=True)
    started_at = BigIntegerField()
    duration_ms = BigIntegerField()
    status_code = IntegerField(null=True)
    error = TextField(null=True)
    response_body = TextField(null=True)


class NotificationChannel(BaseModel):
    """Where people of an organization are told. `secret` says where, sealed; `shown` what of that may be seen."""

    row: ClassVar[type[rows.NotificationChannelRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    profile = reference_to(Profile, "profile", null=True)
    kind = TextField()
    shown = TextField()  # JSON
    events = TextField(default="[]")  # JSON: the types that are told; none named: those that need somebody
    description = TextField(null=True)
    active = BooleanField(default=True)
    secret = TextField()
    failing_since = BigIntegerField(null=True)  # every message since then has failed
    last_delivery_at = BigIntegerField(null=True)
    last_failure_reason = TextField(null=True)
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)


class Notification(BaseModel):
    """A message to people about one cause: written with what has happened, sent from here."""

    number = AutoField()
    id = TextField(unique=True)
    channel = reference_to(NotificationChannel, "channel")
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile", null=True)
    type = TextField()
    cause = TextField()  # what several have in common, so that one message tells of them
    data = TextField()  # JSON: of the first of them
    count = IntegerField(default=1)  # how many they are
    follows = BooleanField(default=False)  # a message about this cause went before
    window_ms = BigIntegerField()
    ends_at = BigIntegerField()  # until then, more of the cause is told in one message that follows
    status = TextField(default="pending", choices=COLUMN_WORDS["DeliveryStatus"])
    attempts = IntegerField(default=0)
    next_attempt_at = BigIntegerField(null=True)
    last_status_code = IntegerField(null=True)
    last_error = TextField(null=True)
    created_at = BigIntegerField()
    updated_at = BigIntegerField()

    class Meta:
        indexes = ((("organization", "number"), False), (("channel", "cause", "number"), False))


Notification.add_index(
    Notification.index(
        Notification.channel, Notification.next_attempt_at, Notification.number, name="notification_due"
    ).where(SQL("status = 'pending'"))
)


class IdempotencyRecord(BaseModel):
    """An Idempotency-Key and the answer it replays; `id` is the SHA-256 of its whole scope."""

    row: ClassVar[type[rows.IdempotencyRecordRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization")
    fingerprint = TextField()
    status = IntegerField(null=True)  # null: still running
    body = TextField(null=True)
    sealed = BooleanField(default=False)
    batch = TextField(null=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)

    class Meta:
        table_name = "idempotency"


IdempotencyRecord.add_index(
    IdempotencyRecord.index(IdempotencyRecord.batch, name="idempotency_open").where(SQL("status IS NULL"))
)
IdempotencyRecord.add_index(
    IdempotencyRecord.index(IdempotencyRecord.id, name="idempotency_sealed").where(SQL("sealed = 1"))
)


class UnacknowledgedRequest(BaseModel):
    """A request without an Idempotency-Key that was accepted, and whose answer may not have been heard."""

    id = TextField(primary_key=True)  # what all equal requests have in common, the run that took it, and its number
    batch = TextField()
    created_at = BigIntegerField()

    class Meta:
        table_name = "owed"
        without_rowid = True


class Usage(BaseModel):
    """Posts accepted in a calendar month, and which notices have gone out."""

    organization = reference_to(Organization, "organization")
    period = TextField()  # YYYY-MM, UTC
    posts = IntegerField(default=0)
    warned = BooleanField(default=False)
    exceeded = BooleanField(default=False)

    class Meta:
        indexes = ((("organization", "period"), True),)


class Subscription(BaseModel):
    """What somebody pays for at Lemon Squeezy, whose id it has."""

    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    variant = TextField()
    tier = TextField()
    ended = BooleanField()
    created_at = BigIntegerField()
    updated_at = BigIntegerField()


class BillingWebhook(BaseModel):
    """The newest notice of one name about a subscription: `said_at` is by the sender's clock."""

    organization = reference_to(Organization, "organization")
    subscription = TextField()  # its payments may be told of before it is
    kind = TextField()  # subscription, invoice: each has its own order
    name = TextField()
    said_at = BigIntegerField()

    class Meta:
        table_name = "subscription_notice"
        indexes = ((("subscription", "name"), True),)


class VersionNotice(BaseModel):
    """That an organization was told of the end of a version of a platform's API: once, however long ago."""

    organization = reference_to(Organization, "organization")
    platform = TextField()
    pin = TextField()
    told_at = BigIntegerField()

    class Meta:
        table_name = "version_told"
        indexes = ((("organization", "platform", "pin"), True),)


class VersionCheck(BaseModel):
    """What a platform last said to the pinned version of its API, and to the next one: one row for each platform."""

    platform = TextField(primary_key=True)
    pin = TextField()
    heard = TextField()  # good, ended, unknown
    newer = TextField(null=True)
    next_heard = TextField(null=True)
    said = TextField()
    asked_at = BigIntegerField()

    class Meta:
        table_name = "version_asked"


class AuditEntry(BaseModel):
    """Who did what, on what, when and from where; ids without references, for it outlasts what it tells of."""

    number = AutoField()
    at = BigIntegerField()
    organization = TextField(null=True)
    key = TextField(null=True)
    user = TextField(null=True)
    verb = TextField()
    subject = TextField(null=True)
    address = TextField()
    request_id = TextField()

    class Meta:
        table_name = "audit"
        indexes = ((("organization", "at"), False), (("organization", "verb", "at"), False))


AuditEntry.add_index(
    AuditEntry.index(AuditEntry.organization, AuditEntry.user, AuditEntry.at, name="audit_user").where(
        SQL("user IS NOT NULL")
    )
)

# --- Rows by their id -------------------------------------------------------------------------------------------


def find_row(model: HasRowType[R], id: object) -> R | None:
    """The row with this id, or None: what `.dicts().first()` gives.

    That builds its SQL anew each time, which takes a hundred times as long as running it.
    """
    table = cast(Any, model)
    sql, fields = _select_by_id(table)
    found = table._meta.database.execute_sql(sql, (table._meta.fields["id"].db_value(id),)).fetchone()
    if found is None:
        return None
    return cast(R, {field.name: field.python_value(value) for field, value in zip(fields, found, strict=True)})


def get_row(model: HasRowType[R], id: object) -> R:
    """The same of a row that is there; `model.DoesNotExist` where it is not."""
    found = find_row(model, id)
    if found is None:
        table = cast(Any, model)
        raise table.DoesNotExist(f"{table._meta.table_name} has no row {id}")
    return found


def find_rows(model: HasRowType[R], *conditions: Any, order: Any = None) -> list[R]:
    """The rows for which all the conditions hold, whole."""
    query = cast(Any, model).select().where(*conditions)
    return list((query if order is None else query.order_by(order)).dicts())


def find_row_where(model: HasRowType[R], *conditions: Any) -> R | None:
    """The one such row, or None."""
    return cast("R | None", cast(Any, model).select().where(*conditions).dicts().first())


@functools.cache
def _select_by_id(model: Any) -> tuple[str, tuple[Any, ...]]:
    meta = model._meta
    columns = ", ".join(select_column(meta.table_name, field.column_name) for field in meta.sorted_fields)
    sql = f'SELECT {columns} FROM "{meta.table_name}" WHERE "id" = ?'
    return sql, tuple(meta.sorted_fields)


TABLES = (
    Job,
    Instance,
    Organization,
    Profile,
    User,
    Session,
    Device,
    RecoveryCode,
    Invitation,
    RemovedUser,
    ApiKey,
    Account,
    PlatformApp,
    ConnectAttempt,
    Media,
    Batch,
    Post,
    Attempt,
    Intent,
    Event,
    WebhookEndpoint,
    WebhookDelivery,
    WebhookAttempt,
    NotificationChannel,
    Notification,
    IdempotencyRecord,
    UnacknowledgedRequest,
    Usage,
    Subscription,
    BillingWebhook,
    VersionNotice,
    VersionCheck,
    AuditEntry,
)


def check_columns(path: Path) -> None:
    """StartError unless every table of the migrated file has its columns.

    A bit that flips in the schema's own text renames a column; SQLite's checks find nothing wrong with that.
    """
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            why = next((why for table in TABLES if (why := _find_missing_column(connection, table._meta))), "")
    except sqlite3.DatabaseError as error:  # also for a name that is no text any more
        why = f"its schema cannot be read: {error}"
    if why:
        raise StartError(f"{path} is damaged ({why}). Put a backup in its place.")


def _find_missing_column(connection: sqlite3.Connection, table: Any) -> str:
    name = table.table_name
    there = {row[1] for row in connection.execute(f"PRAGMA table_info('{name}')")}
    missing = sorted({field.column_name for field in table.sorted_fields} - there)
    return f"table {name} has no column {missing[0]}" if missing else ""
