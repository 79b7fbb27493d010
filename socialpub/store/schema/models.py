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
    CompositeKey,
    FloatField,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from socialpub.store.database import BaseModel
from socialpub.store.engine.id_fields import SurrogateKeyField, UuidField
from socialpub.store.engine.locks import StartError
from socialpub.store.jobs.leases import Job as Job  # one of TABLES
from socialpub.store.queries import events
from socialpub.store.queries.id_columns import select_column
from socialpub.store.queries.maintenance import DUE_AT, IS_OPEN, NAMES_MEDIA

if TYPE_CHECKING:  # `rows.py` is generated from this file
    from socialpub.store import rows

R = TypeVar("R", covariant=True)
COLUMN_WORDS = {  # columns with a fixed set of values
    "AccountStatus": ("active", "expiring", "revoked"),
    "MediaKind": ("image", "video", "document"),
    "DeliveryStatus": ("pending", "succeeded", "failed"),
    "PostStatus": ("queued", "validated", "publishing", "published", "failed", "rejected", "canceled"),
    "DraftStatus": ("draft", "proposed", "approved", "published"),
}


class HasRowType(Protocol[R]):
    """A model that declares the type of its rows; `rows.py` is generated from it."""

    @property
    def row(self) -> type[R]: ...


def reference_to(model: type[BaseModel], name: str, **options: Any) -> ForeignKeyField:
    """Return a foreign key column whose value is the id; reading it runs no query."""
    return ForeignKeyField(model, column_name=name, lazy_load=False, **({"index": False, "field": "id"} | options))


def number_reference_to(model: type[BaseModel], name: str) -> SurrogateKeyField:
    """Return a column that stores another row's number, and whose value is that row's id."""
    return SurrogateKeyField(model, column_name=name, field="number", lazy_load=False, index=False)


# --- The server's run ------------------------------------------------------------------------------------------------


class Instance(BaseModel):
    """The only row: the server run that owns the file, and whether publishing is paused."""

    row: ClassVar[type[rows.InstanceRow]]
    id = IntegerField(primary_key=True)
    uid = TextField(default="")  # of this database, in any file; a copy gets its own when it is resumed
    epoch = IntegerField(default=0)
    beat = IntegerField(default=0)  # incremented at each start, after changes, and hourly; with `mark` also in
    mark = TextField(default="")  # {data_dir}/instance.state and outside it, to detect copied or restored files
    paused = TextField(null=True)  # why; null: publishing
    moved = TextField(null=True)  # JSON: set by `socialpub move`; the server now runs elsewhere
    seen_at = BigIntegerField(default=0)
    key_id = TextField(null=True)  # of the master key that encrypts
    client_key = TextField(null=True)  # encrypted: the key of this server as an OAuth client with a client metadata URL
    signing_key = TextField(null=True)  # encrypted: the key that signs cursors and media URLs


# --- Organizations, users and keys -----------------------------------------------------------------------------------


class Organization(BaseModel):
    row: ClassVar[type[rows.OrganizationRow]]
    number = AutoField()  # the reference in large tables
    id = TextField(unique=True)
    name = TextField()
    tier = TextField(default="self_host")
    account_groups = TextField(null=True)  # JSON: the ids of the accounts of each named group
    created_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)  # its rows stay until retention deletes them


class Profile(BaseModel):
    row: ClassVar[type[rows.ProfileRow]]
    number = AutoField()
    id = TextField(unique=True)
    organization = reference_to(Organization, "organization")
    name = TextField()
    slug = TextField()
    slots = TextField(null=True)  # JSON {zone, weekly}; null: none defined
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
    role = TextField()  # owner, admin, member, author
    password = TextField(null=True)  # argon2id
    totp = TextField(null=True)  # encrypted TOTP secret; null: no second factor
    totp_step = BigIntegerField(default=0)  # of the last accepted code
    zone = TextField(null=True)  # the chosen time zone; null: the browser's, stored in the session
    views = TextField(null=True)  # JSON: the saved filters of the list of posts, by name
    created_at = BigIntegerField()


class Session(BaseModel):
    """A signed-in browser; the id is the SHA-256 of the cookie's value."""

    id = TextField(primary_key=True)
    user = reference_to(User, "user", index=True)
    profile = reference_to(Profile, "profile", null=True)  # the profile that the pages show; null: all
    csrf = TextField()
    address = TextField(default="")  # the client address at sign-in
    agent = TextField(default="")  # User-Agent
    zone = TextField(null=True)  # of the browser
    proved_at = BigIntegerField(default=0)  # when the password was last confirmed
    kept = TextField(null=True)  # JSON: the form that was sent when the previous session had expired
    created_at = BigIntegerField()
    seen_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class Device(BaseModel):
    """A browser that has signed in before; the id is the SHA-256 of its cookie's value."""

    id = TextField(primary_key=True)
    user = reference_to(User, "user", index=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class RecoveryCode(BaseModel):
    """A one-time replacement of a TOTP code; the id is the SHA-256 of its user and the code."""

    id = TextField(primary_key=True)
    user = reference_to(User, "user", index=True)


class Invitation(BaseModel):
    """An invitation to become a member, a one-time link; `digest` is the SHA-256 of its token."""

    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    email = TextField()
    role = TextField()
    digest = TextField(unique=True)
    invited_by = reference_to(User, "invited_by", index=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


class RemovedUser(BaseModel):
    """The name of a removed user, for the audit log, as long as that has entries of them."""

    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    email = TextField()
    removed_at = BigIntegerField(index=True)

    class Meta:
        table_name = "former_user"


class ApiKey(BaseModel):
    """An API key; `digest` is its SHA-256, and the key itself is not stored."""

    row: ClassVar[type[rows.ApiKeyRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    profile = reference_to(Profile, "profile", null=True)
    name = TextField()
    prefix = TextField()
    last4 = TextField()
    digest = TextField(unique=True)
    scopes = TextField(null=True)  # JSON: what the key may do; null: everything
    accounts = TextField(null=True)  # JSON, sorted: the accounts that the key may use; null: all
    expires_at = BigIntegerField(null=True)
    notice_days = IntegerField(null=True)  # of the last notice of its end: that many days ahead
    created_at = BigIntegerField()
    last_used_at = BigIntegerField(null=True)
    revoked_at = BigIntegerField(null=True)


class OAuthClient(BaseModel):
    """A program that registered itself to request keys. `approved_at`: its last consent."""

    row: ClassVar[type[rows.OAuthClientRow]]
    id = TextField(primary_key=True)
    name = TextField()
    redirect_uris = TextField()  # JSON
    created_at = BigIntegerField()
    approved_at = BigIntegerField(null=True)
    ends_at = BigIntegerField(index=True)

    class Meta:
        table_name = "oauth_client"


class AuthorizationCode(BaseModel):
    """A code that an OAuth client exchanges for an API key, once; the id is its SHA-256."""

    row: ClassVar[type[rows.AuthorizationCodeRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    user = TextField()  # who let the client in
    client = TextField()
    redirect_uri = TextField()
    challenge = TextField()  # PKCE, S256
    request = TextField()  # JSON: of the key
    key = TextField(null=True)  # its id, once the code is used
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)

    class Meta:
        table_name = "authorization_code"


# --- Accounts --------------------------------------------------------------------------------------------------------


class Account(BaseModel):
    """A connected account; `secret` is its encrypted tokens, null once disconnected."""

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
    renewed_at = BigIntegerField(null=True)  # when the tokens were issued
    ends_at = BigIntegerField(null=True)  # when the owner must reconnect; null: never, the tokens are refreshed
    renewal_at = BigIntegerField(null=True)  # start of a refresh whose outcome is unknown
    extra = TextField(default="{}")
    attention = TextField(null=True)  # JSON {code, message, at}: a refusal although the token is valid
    renewals = TextField(null=True)  # JSON: the times of the last refreshes
    renewal_refused_at = BigIntegerField(null=True)  # when a refresh was refused as if the app's credentials were wrong
    renewing = TextField(null=True)  # the run that refreshes the tokens now, exclusively
    renewing_until = BigIntegerField(null=True)  # when that lock expires, in case the run has died
    revoked_reason = TextField(null=True)  # why its authorization ended, while it has
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    disconnected_at = BigIntegerField(null=True)

    class Meta:
        indexes = (
            (("organization", "profile", "platform"), False),
            (("profile", "platform", "platform_account_id"), True),
        )


class PlatformApp(BaseModel):
    """The app registered at a platform, entered by an owner; the id is the platform's name."""

    row: ClassVar[type[rows.PlatformAppRow]]
    id = TextField(primary_key=True)
    client_id = TextField()
    secret = TextField()  # encrypted
    known_at = BigIntegerField(null=True)  # when the platform last confirmed the app; null: never
    created_at = BigIntegerField()
    updated_at = BigIntegerField()


class ConnectAttempt(BaseModel):
    """A connection in progress; the id is the SHA-256 of the OAuth state.

    `session` is the SHA-256 of the session's CSRF token; `choices` are encrypted accounts, of which the owner picks.
    """

    row: ClassVar[type[rows.ConnectAttemptRow]]
    id = TextField(primary_key=True)
    session = TextField()
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile")
    platform = TextField()
    secret = TextField()  # encrypted: the PKCE verifier and other data of the token exchange
    used_at = BigIntegerField(null=True)
    choices = TextField(null=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)


# --- Media -----------------------------------------------------------------------------------------------------------


class Media(BaseModel):
    """A stored file.

    The bytes are in `{data_dir}/media/{2 characters}/{sha256}`, shared by equal files.
    """

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
    used_at = BigIntegerField(default=0)  # when a post last used it, or will
    deleted_at = BigIntegerField(null=True)

    class Meta:
        indexes = ((("organization", "created_at", "id"), False),)


Media.add_index(Media.index(Media.used_at, name="media_used").where(SQL("deleted_at IS NULL")))
Media.add_index(Media.index(Media.size_bytes, name="media_kept").where(SQL("deleted_at IS NULL")))
Media.add_index(Media.index(Media.deleted_at, name="media_gone").where(SQL("deleted_at IS NOT NULL")))
Media.add_index(  # `size_bytes > 0` keeps SQLite from using it to find ids of an organization
    Media.index(Media.organization, Media.size_bytes, name="media_held").where(
        SQL("deleted_at IS NULL AND size_bytes > 0")
    )
)


# --- Posts -----------------------------------------------------------------------------------------------------------


class Batch(BaseModel):
    id = TextField(primary_key=True)
    organization = number_reference_to(Organization, "organization")
    request_id = TextField(null=True)
    created_at = BigIntegerField()
    scheduled_at = BigIntegerField(null=True)

    class Meta:
        without_rowid = True


class ExternalId(BaseModel):
    """The batch that has an external id. The id stays taken when retention deletes the batch."""

    organization = number_reference_to(Organization, "organization")
    id = TextField()
    batch = TextField()
    content = TextField()  # hash of the request's content (`posts/content_hash.py`)

    class Meta:
        table_name = "external_id"
        primary_key = CompositeKey("organization", "id")
        without_rowid = True


class PlanToken(BaseModel):
    """A checked publish request that a token publishes once; the id is the token's SHA-256."""

    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile", null=True)  # of the key that made it
    request = TextField()  # JSON
    content = TextField()  # its hash (`posts/content_hash.py`)
    batch = TextField(null=True)  # once it is used
    created_at = BigIntegerField()
    ends_at = BigIntegerField(index=True)

    class Meta:
        table_name = "plan_token"
        indexes = ((("organization", "ends_at"), False),)


class Post(BaseModel):
    """One target of a batch: the public row of the post log, and the data to publish it."""

    row: ClassVar[type[rows.PostRow]]
    number = AutoField()  # in the order of the commits; the rowid of the search index (`search.py`)
    id = TextField(unique=True)
    organization = number_reference_to(Organization, "organization")
    profile = number_reference_to(Profile, "profile")
    account = number_reference_to(Account, "account")
    platform = TextField()
    batch = reference_to(Batch, "batch")
    position = IntegerField()
    status = TextField(choices=COLUMN_WORDS["PostStatus"])
    text = TextField()
    text_fold = TextField()  # for searching (`casefold.fold`); "" if equal to `lower(text)`
    media = TextField()  # the items as in mediaRefs
    own_text = BooleanField(null=True)  # true: an edit of its batch leaves the text and
    own_media = BooleanField(null=True)  # the media that belong to this post alone
    options = TextField()
    first_comment = TextField(null=True)
    external_id = TextField(null=True)  # of its batch
    scheduled_at = BigIntegerField(null=True)
    next_attempt_at = BigIntegerField(null=True)
    due_at = BigIntegerField(null=True)  # of the latest attempt, if neither scheduled_at nor created_at
    published_at = BigIntegerField(null=True)
    platform_uri = TextField(null=True)
    platform_cid = TextField(null=True)
    url = TextField(null=True)
    first_comment_uri = TextField(null=True)
    first_comment_cid = TextField(null=True)
    error = TextField(null=True)
    error_code = TextField(null=True)
    warnings = TextField(default="[]")
    attempts = IntegerField(default=0)  # started so far
    tries = IntegerField(default=0)  # of them, since the last manual retry
    draft_at = BigIntegerField(null=True)  # set at the first claim, with draft_nonce: the platform's keys are
    draft_nonce = BigIntegerField(null=True)  # made of them, the same ones in every attempt
    saved = TextField(null=True)  # state that `prepare` gets back
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    thread_of = TextField(null=True)  # the first piece of its thread; null: it is the first, or there is no thread
    thread_position = IntegerField(null=True)  # 0 is the first piece; null: no thread
    previous = TextField(null=True)  # JSON: the published piece before it; a later piece without it waits for that

    class Meta:
        # Each index continues with the rowid (`number`), so it also gives the order of the post log.
        indexes = (
            (("organization", "created_at"), False),
            (("profile", "created_at"), False),
            (("organization", "status", "platform", "created_at"), False),
            (("profile", "status", "platform", "created_at"), False),
            (("number", "status", "error_code"), False),
            (("batch", "position"), True),
            (("account", "created_at"), False),
        )


for _owner in (Post.organization, Post.profile):  # the post log probes one per combination of filters
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
Post.add_index(
    Post.index(Post.organization, Post.external_id, Post.created_at, name="post_external_id").where(
        SQL("external_id IS NOT NULL")
    )
)
# SQLite uses these only for statements with the identical condition.
Post.add_index(Post.index(SQL(DUE_AT), name="post_open").where(SQL(IS_OPEN)))
Post.add_index(Post.index(Post.account, Post.number, name="post_open_account").where(SQL(IS_OPEN)))
Post.add_index(Post.index(Post.organization, name="post_open_media").where(SQL(f"{IS_OPEN} AND {NAMES_MEDIA}")))
Post.add_index(
    Post.index(Post.account, Post.status, Post.scheduled_at, name="post_scheduled").where(
        SQL("scheduled_at IS NOT NULL")
    )
)


class PostDraft(BaseModel):
    """A publish request that is being written, proposed and approved; `content` is its JSON.

    `approved_digest` covers what would be sent. `link_digest` is the SHA-256 of the token of its approval link.
    """

    row: ClassVar[type[rows.PostDraftRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile", null=True)
    title = TextField(null=True)
    content = TextField()
    scheduled_at = BigIntegerField(null=True)  # of the content
    status = TextField(default="draft", choices=COLUMN_WORDS["DraftStatus"])
    note = TextField(null=True)  # of the person who returned it
    problems = TextField(default="[]")  # JSON: found by preflight when the content was last checked
    approved_digest = TextField(null=True)
    link_digest = TextField(null=True)
    link_ends_at = BigIntegerField(null=True)
    batch = TextField(null=True)  # once published; no foreign key: the batch may be deleted by retention
    created_by = TextField()  # user:ID, key:ID or link
    updated_by = TextField()
    created_at = BigIntegerField()
    updated_at = BigIntegerField()

    class Meta:
        table_name = "draft"
        indexes = ((("organization", "created_at", "id"), False),)


PostDraft.add_index(
    PostDraft.index(PostDraft.link_digest, unique=True, name="draft_link").where(SQL("link_digest IS NOT NULL"))
)
PostDraft.add_index(  # used only by a statement with the identical condition (`queries/drafts.py`)
    PostDraft.index(PostDraft.organization, PostDraft.scheduled_at, name="draft_scheduled").where(
        SQL("status <> 'published' AND scheduled_at IS NOT NULL")
    )
)


class PostDraftMedia(BaseModel):
    """A stored file that an unpublished draft names, which is therefore not deleted."""

    draft = reference_to(PostDraft, "draft")
    media = reference_to(Media, "media", index=True)

    class Meta:
        table_name = "draft_media"
        indexes = ((("draft", "media"), True),)


class Attempt(BaseModel):
    """One run of the publishing protocol for a post, as in GET /v1/posts/{id}."""

    row: ClassVar[type[rows.AttemptRow]]
    place = AutoField()  # in the order of their starts
    id = UuidField()  # shown, but never looked up
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
    """A send to a platform, recorded before it happens; append-only except for its outcome.

    At most one open intent per post and step; a remote post belongs to one intent of its account.
    """

    row: ClassVar[type[rows.IntentRow]]
    id = AutoField()
    post = number_reference_to(Post, "post")
    attempt = IntegerField()  # the number of the post's attempt
    account = number_reference_to(Account, "account")
    step = TextField()  # publish, comment
    number = IntegerField()
    plan = TextField()  # JSON; "" once its post is published
    epoch = IntegerField()
    intent_at = BigIntegerField()
    sent_at = BigIntegerField(null=True)  # of the latest send
    sends = IntegerField(default=0)
    looks = IntegerField(default=0)
    answered = BooleanField(default=False)  # every send so far got a response, but an ambiguous one
    refusal = TextField(null=True)  # the error to end with if a look-up finds no post
    outcome = TextField(null=True)  # null: open
    remote = BigIntegerField(null=True)  # the hash of the remote post's id
    result = TextField(null=True)
    evidence = TextField(null=True)
    settled_at = BigIntegerField(null=True)
    settled_by = TextField(null=True)  # the user who settled it

    class Meta:
        indexes = ((("post", "step", "number"), True),)


Intent.add_index(Intent.index(Intent.post, Intent.step, unique=True, name="intent_open").where(SQL("outcome IS NULL")))
Intent.add_index(
    Intent.index(Intent.account, Intent.remote, unique=True, name="intent_remote").where(SQL("remote IS NOT NULL"))
)
Intent.add_index(Intent.index(Intent.account, name="intent_unknown").where(SQL("outcome = 'unknown'")))


# --- Events and their deliveries -------------------------------------------------------------------------------------


class EventTypeField(IntegerField):  # type: ignore[misc]
    """The type of an event, stored as its number."""

    def db_value(self, value: str) -> int:
        return events.TYPE_NUMBERS[value]

    def python_value(self, value: int) -> str:
        return events.TYPE_NAMES[value]


class Event(BaseModel):
    """An event in the order of the commits, for webhooks and /v1/events.

    There are at least two per post, so data that its post, its batch or this row's other columns imply are not stored.
    """

    number = AutoField()  # gives the id, with the time and the organization
    organization = reference_to(Organization, "organization", field="number")
    profile = reference_to(Profile, "profile", null=True)
    type = EventTypeField()
    # The number of its post; `profile` is then null, as the post implies it. No foreign key: deleting a post would scan
    # all events.
    post = BigIntegerField(null=True)
    scheduled_at = BigIntegerField(null=True)  # of its post, for types with that field, if `data` is null
    data = TextField(null=True)  # JSON; null if the post's row implies it
    request_id = TextField(null=True)  # of a post's event, if not the request of its batch
    created_at = BigIntegerField()

    class Meta:
        indexes = ((("organization", "number"), False),)


Event.add_index(Event.index(Event.post, name="event_error").where(SQL(events.HAS_POST_ERROR)))


class WebhookEndpoint(BaseModel):
    """A URL that events are sent to; `secret` and the previous one are encrypted."""

    row: ClassVar[type[rows.WebhookEndpointRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    profile = reference_to(Profile, "profile", null=True)
    accounts = TextField(null=True)  # JSON, as of the key that made it: events of these accounts; null: of all
    url = TextField()
    events = TextField(default="[]")  # JSON: the types to send; []: all
    description = TextField(null=True)
    active = BooleanField(default=True)
    secret = TextField()
    previous_secret = TextField(null=True)
    previous_until = BigIntegerField(null=True)  # until then the previous secret signs, too
    # Deliveries that were refused with the new secret and accepted with the previous one.
    previous_accepted = IntegerField(default=0)
    failing_since = BigIntegerField(null=True)  # every delivery since then has failed
    last_delivery_at = BigIntegerField(null=True)
    last_failure_reason = TextField(null=True)
    created_at = BigIntegerField()
    updated_at = BigIntegerField()
    deleted_at = BigIntegerField(null=True)


class WebhookDelivery(BaseModel):
    """An outbox entry: one event for one endpoint, written together with the event."""

    number = AutoField()
    id = TextField(unique=True)
    endpoint = reference_to(WebhookEndpoint, "endpoint")
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile", null=True)
    event = reference_to(Event, "event", field="number", index=True)
    type = TextField()
    post = TextField(null=True)  # a post's deliveries go out in order, unless one is retried
    status = TextField(default="pending", choices=COLUMN_WORDS["DeliveryStatus"])
    attempts = IntegerField(default=0)
    tries = IntegerField(default=0)  # of them, since the last manual resend
    next_attempt_at = BigIntegerField(null=True)
    last_status_code = IntegerField(null=True)
    last_error = TextField(null=True)
    created_at = BigIntegerField()
    updated_at = BigIntegerField()

    class Meta:
        indexes = ((("organization", "number"), False),)


WebhookDelivery.add_index(
    WebhookDelivery.index(
        WebhookDelivery.endpoint,
        WebhookDelivery.status,
        WebhookDelivery.created_at,
        WebhookDelivery.number,
        WebhookDelivery.updated_at,
        name="webhook_delivery_redeliver",
    )
)
WebhookDelivery.add_index(
    WebhookDelivery.index(
        WebhookDelivery.endpoint, WebhookDelivery.next_attempt_at, WebhookDelivery.number, name="webhook_delivery_due"
    ).where(SQL("status = 'pending'"))
)


class WebhookAttempt(BaseModel):
    """One call of an endpoint, and its response."""

    id = TextField(primary_key=True)
    delivery = reference_to(WebhookDelivery, "delivery", field="number", index=True)
    started_at = BigIntegerField()
    duration_ms = BigIntegerField()
    status_code = IntegerField(null=True)
    error = TextField(null=True)
    response_body = TextField(null=True)


class NotificationChannel(BaseModel):
    """A channel for notifications: `secret` is its encrypted target, `shown` the visible part."""

    row: ClassVar[type[rows.NotificationChannelRow]]
    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    profile = reference_to(Profile, "profile", null=True)
    accounts = TextField(null=True)  # as of a webhook endpoint
    kind = TextField()
    shown = TextField()  # JSON
    events = TextField(default="[]")  # JSON: the types to send; []: those that need attention
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
    """An outbox entry: a message to people about one cause, written together with the event."""

    number = AutoField()
    id = TextField(unique=True)
    channel = reference_to(NotificationChannel, "channel")
    organization = reference_to(Organization, "organization")
    profile = reference_to(Profile, "profile", null=True)
    type = TextField()
    cause = TextField()  # events of one cause share a message
    data = TextField()  # JSON: of the first event
    count = IntegerField(default=1)  # of events
    follows = BooleanField(default=False)  # a message about this cause was sent before
    window_ms = BigIntegerField()
    ends_at = BigIntegerField()  # until then, further events of the cause are collected for one later message
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


# --- Repeated requests -----------------------------------------------------------------------------------------------


class IdempotencyRecord(BaseModel):
    """An Idempotency-Key and the response to replay; the id is the SHA-256 of its scope."""

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
    """An accepted request without an Idempotency-Key whose response may not have arrived."""

    id = TextField(primary_key=True)  # the hash of the request, the server run, and a number
    batch = TextField()
    created_at = BigIntegerField()

    class Meta:
        table_name = "owed"
        without_rowid = True


# --- Quotas and billing ----------------------------------------------------------------------------------------------


class Usage(BaseModel):
    """The posts accepted in a calendar month, and the notices sent."""

    organization = reference_to(Organization, "organization")
    period = TextField()  # YYYY-MM, UTC
    posts = IntegerField(default=0)
    warned = BooleanField(default=False)
    exceeded = BooleanField(default=False)

    class Meta:
        indexes = ((("organization", "period"), True),)


class Subscription(BaseModel):
    """A subscription at Lemon Squeezy; the id is Lemon Squeezy's."""

    id = TextField(primary_key=True)
    organization = reference_to(Organization, "organization", index=True)
    variant = TextField()
    tier = TextField()
    ended = BooleanField()
    created_at = BigIntegerField()
    updated_at = BigIntegerField()


class BillingWebhook(BaseModel):
    """The latest billing webhook of one name for a subscription.

    `said_at` is the sender's time.
    """

    organization = reference_to(Organization, "organization")
    subscription = TextField()  # no foreign key: webhooks about payments may arrive before its own
    kind = TextField()  # subscription, invoice: each has its own order
    name = TextField()
    said_at = BigIntegerField()

    class Meta:
        table_name = "subscription_notice"
        indexes = ((("subscription", "name"), True),)


# --- API versions of platforms ---------------------------------------------------------------------------------------


class VersionNotice(BaseModel):
    """A notice to an organization about the end of an API version, sent only once."""

    organization = reference_to(Organization, "organization")
    platform = TextField()
    pin = TextField()
    told_at = BigIntegerField()

    class Meta:
        table_name = "version_told"
        indexes = ((("organization", "platform", "pin"), True),)


class VersionCheck(BaseModel):
    """A platform's last response to its pinned API version and the next one."""

    platform = TextField(primary_key=True)
    pin = TextField()
    heard = TextField()  # good, ended, unknown
    newer = TextField(null=True)
    next_heard = TextField(null=True)
    said = TextField()
    asked_at = BigIntegerField()

    class Meta:
        table_name = "version_asked"


# --- The audit log ---------------------------------------------------------------------------------------------------


class AuditEntry(BaseModel):
    """An action of a user, key or command: on which object, when and from where.

    Without foreign keys, as it outlasts the objects.
    """

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


# --- Finding rows ----------------------------------------------------------------------------------------------------


def find_row(model: HasRowType[R], id: object) -> R | None:
    """Return the row with this id, or None.

    peewee's `.dicts().first()` builds its SQL for each call, which takes a hundred times as long as running it.
    """
    table = cast(Any, model)
    sql, fields = _select_by_id(table)
    record = table._meta.database.execute_sql(sql, (table._meta.fields["id"].db_value(id),)).fetchone()
    if record is None:
        return None
    return cast(R, {field.name: field.python_value(value) for field, value in zip(fields, record, strict=True)})


def get_row(model: HasRowType[R], id: object) -> R:
    """Return the row with this id; raise `model.DoesNotExist` if there is none."""
    record = find_row(model, id)
    if record is None:
        table = cast(Any, model)
        raise table.DoesNotExist(f"{table._meta.table_name} has no row {id}")
    return record


def find_rows(model: HasRowType[R], *conditions: Any, order: Any = None) -> list[R]:
    """Return the rows that meet all conditions."""
    query = cast(Any, model).select().where(*conditions)
    return list((query if order is None else query.order_by(order)).dicts())


def find_row_where(model: HasRowType[R], *conditions: Any) -> R | None:
    """Return the only row that meets all conditions, or None."""
    return cast("R | None", cast(Any, model).select().where(*conditions).dicts().first())


@functools.cache
def _select_by_id(model: Any) -> tuple[str, tuple[Any, ...]]:
    meta = model._meta
    columns = ", ".join(select_column(meta.table_name, field.column_name) for field in meta.sorted_fields)
    sql = f'SELECT {columns} FROM "{meta.table_name}" WHERE "id" = ?'
    return sql, tuple(meta.sorted_fields)


# --- All tables ------------------------------------------------------------------------------------------------------

TABLES: tuple[type[BaseModel], ...] = tuple(BaseModel.__subclasses__())  # in the order of their definition


def check_columns(path: Path) -> None:
    """Raise StartError unless every table of the migrated file has its columns.

    A flipped bit in the schema's text renames a column, which SQLite's checks do not detect.
    """
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            why = next((why for table in TABLES if (why := _find_missing_column(connection, table._meta))), "")
    except sqlite3.DatabaseError as error:  # also for a name that is no longer valid text
        why = f"its schema cannot be read: {error}"
    if why:
        raise StartError(f"{path} is damaged ({why}). Put a backup in its place.")


def _find_missing_column(connection: sqlite3.Connection, table: Any) -> str:
    name = table.table_name
    columns = {row[1] for row in connection.execute(f"PRAGMA table_info('{name}')")}
    missing = sorted({field.column_name for field in table.sorted_fields} - columns)
    return f"table {name} has no column {missing[0]}" if missing else ""
