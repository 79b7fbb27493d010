"""A row of each table as a dict, column by column: what `.dicts()`, `row_of` and `the_row` of `models` give.

Times are epoch milliseconds, structures are JSON text. A test holds them to the models.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeVar

from typing_extensions import TypedDict

R = TypeVar("R", covariant=True)
AccountStatus = Literal["active", "expiring", "revoked"]
MediaKind = Literal["image", "video"]
DeliveryStatus = Literal["pending", "succeeded", "failed"]
PostStatus = Literal["queued", "validated", "publishing", "published", "failed", "rejected", "canceled"]


class Rowed(Protocol[R]):
    """A model that says what its rows are."""

    @property
    def row(self) -> type[R]: ...


class JobRow(TypedDict):
    key: str
    kind: str
    lane: str
    visible_at: int
    claims: int
    epoch: int | None
    host: str
    owner: str


class InstanceRow(TypedDict):
    id: int
    epoch: int
    beat: int
    mark: str
    paused: str | None
    seen_at: int
    key_id: str | None
    client_key: str | None
    uid: str
    signing_key: str | None
    moved: str | None


class OrganizationRow(TypedDict):
    number: int
    id: str
    name: str
    tier: str
    created_at: int
    deleted_at: int | None


class ProfileRow(TypedDict):
    number: int
    id: str
    organization: str
    name: str
    slug: str
    created_at: int
    updated_at: int
    deleted_at: int | None


class UserRow(TypedDict):
    id: str
    organization: str
    email: str
    role: str
    password: str | None
    created_at: int
    zone: str | None
    totp: str | None
    totp_step: int


class SessionRow(TypedDict):
    id: str
    user: str
    csrf: str
    created_at: int
    seen_at: int
    ends_at: int
    zone: str | None
    profile: str | None
    proved_at: int
    kept: str | None
    address: str
    agent: str


class DeviceRow(TypedDict):
    id: str
    user: str
    created_at: int
    ends_at: int


class RecoveryCodeRow(TypedDict):
    id: str
    user: str


class InvitationRow(TypedDict):
    id: str
    organization: str
    email: str
    role: str
    digest: str
    invited_by: str
    created_at: int
    ends_at: int


class FormerUserRow(TypedDict):
    id: str
    organization: str
    email: str
    removed_at: int


class ApiKeyRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    name: str
    prefix: str
    last4: str
    digest: str
    created_at: int
    last_used_at: int | None
    revoked_at: int | None


class AccountRow(TypedDict):
    number: int
    id: str
    organization: str
    profile: str
    platform: str
    platform_account_id: str
    display_name: str | None
    status: AccountStatus
    secret: str | None
    token_expires_at: int | None
    renewed_at: int | None
    ends_at: int | None
    renewal_at: int | None
    extra: str
    created_at: int
    updated_at: int
    disconnected_at: int | None
    attention: str | None
    renewals: str | None
    renewal_refused_at: int | None
    renewing: str | None
    renewing_until: int | None
    revoked_reason: str | None


class PlatformAppRow(TypedDict):
    id: str
    client_id: str
    secret: str
    known_at: int | None
    created_at: int
    updated_at: int


class ConnectAttemptRow(TypedDict):
    id: str
    session: str
    organization: str
    profile: str
    platform: str
    secret: str
    used_at: int | None
    choices: str | None
    created_at: int
    ends_at: int


class MediaRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    content_type: str
    kind: MediaKind
    size_bytes: int
    sha256: str
    width: int | None
    height: int | None
    frames: int | None
    duration_ms: int | None
    alt_text: str | None
    created_at: int
    deleted_at: int | None
    frame_rate: float | None
    bit_rate: int | None
    video_codec: str | None
    audio_codec: str | None
    has_audio: bool | None
    used_at: int


class BatchRow(TypedDict):
    id: str
    organization: str
    request_id: str | None
    created_at: int
    scheduled_at: int | None


class PostRow(TypedDict):
    number: int
    id: str
    organization: str
    profile: str
    account: str
    platform: str
    batch: str
    position: int
    status: PostStatus
    text: str
    text_fold: str
    media: str
    options: str
    first_comment: str | None
    scheduled_at: int | None
    next_attempt_at: int | None
    published_at: int | None
    platform_uri: str | None
    platform_cid: str | None
    url: str | None
    first_comment_uri: str | None
    first_comment_cid: str | None
    error: str | None
    error_code: str | None
    warnings: str
    attempts: int
    tries: int
    draft_at: int | None
    draft_nonce: int | None
    saved: str | None
    created_at: int
    updated_at: int
    due_at: int | None


class AttemptRow(TypedDict):
    place: int
    id: str
    post: str
    number: int
    started_at: int
    finished_at: int | None
    succeeded: bool | None
    error_code: str | None
    error_message: str | None
    platform_response: str | None


class IntentRow(TypedDict):
    id: int
    post: str
    attempt: int
    account: str
    step: str
    number: int
    plan: str
    epoch: int
    intent_at: int
    sent_at: int | None
    sends: int
    looks: int
    answered: bool
    refusal: str | None
    outcome: str | None
    remote: int | None
    result: str | None
    evidence: str | None
    settled_at: int | None
    settled_by: str | None


class EventRow(TypedDict):
    number: int
    former_id: bytes | None
    organization: int
    profile: str | None
    type: str
    post: int | None
    scheduled_at: int | None
    data: str | None
    request_id: str | None
    created_at: int


class WebhookEndpointRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    url: str
    events: str
    description: str | None
    active: bool
    secret: str
    previous_secret: str | None
    previous_until: int | None
    previous_accepted: int
    failing_since: int | None
    last_delivery_at: int | None
    last_failure_reason: str | None
    created_at: int
    updated_at: int
    deleted_at: int | None


class WebhookDeliveryRow(TypedDict):
    number: int
    id: str
    endpoint: str
    organization: str
    profile: str | None
    event: int
    type: str
    post: str | None
    status: DeliveryStatus
    attempts: int
    tries: int
    next_attempt_at: int | None
    last_status_code: int | None
    last_error: str | None
    created_at: int
    updated_at: int


class WebhookAttemptRow(TypedDict):
    id: str
    delivery: int
    started_at: int
    duration_ms: int
    status_code: int | None
    error: str | None
    response_body: str | None


class NotificationChannelRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    kind: str
    shown: str
    events: str
    description: str | None
    active: bool
    secret: str
    failing_since: int | None
    last_delivery_at: int | None
    last_failure_reason: str | None
    created_at: int
    updated_at: int
    deleted_at: int | None


class NotificationRow(TypedDict):
    number: int
    id: str
    channel: str
    organization: str
    profile: str | None
    type: str
    cause: str
    data: str
    count: int
    follows: bool
    window_ms: int
    ends_at: int
    status: DeliveryStatus
    attempts: int
    next_attempt_at: int | None
    last_status_code: int | None
    last_error: str | None
    created_at: int
    updated_at: int


class IdempotencyRow(TypedDict):
    id: str
    organization: str
    fingerprint: str
    status: int | None
    body: str | None
    sealed: bool
    batch: str | None
    created_at: int
    ends_at: int


class OwedRow(TypedDict):
    id: str
    batch: str
    created_at: int


class UsageRow(TypedDict):
    id: int
    organization: str
    period: str
    posts: int
    warned: bool
    exceeded: bool


class SubscriptionRow(TypedDict):
    id: str
    organization: str
    variant: str
    tier: str
    ended: bool
    created_at: int
    updated_at: int


class SubscriptionNoticeRow(TypedDict):
    id: int
    organization: str
    subscription: str
    kind: str
    name: str
    said_at: int


class VersionToldRow(TypedDict):
    id: int
    organization: str
    platform: str
    pin: str
    told_at: int


class VersionAskedRow(TypedDict):
    platform: str
    pin: str
    heard: str
    newer: str | None
    next_heard: str | None
    said: str
    asked_at: int


class AuditRow(TypedDict):
    number: int
    at: int
    organization: str | None
    key: str | None
    user: str | None
    verb: str
    subject: str | None
    address: str
    request_id: str
