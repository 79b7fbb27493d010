"""Types of the rows that `.dicts()`, `find_row` and `get_row` of `models` return.

Times are epoch milliseconds, structures are JSON text. `make fix` generates this file from `models.py`.
"""

from typing import Literal

from typing_extensions import TypedDict

AccountStatus = Literal["active", "expiring", "revoked"]
MediaKind = Literal["image", "video", "document"]
DeliveryStatus = Literal["pending", "succeeded", "failed"]
PostStatus = Literal["queued", "validated", "publishing", "published", "failed", "rejected", "canceled"]
DraftStatus = Literal["draft", "proposed", "approved", "published"]


class InstanceRow(TypedDict):
    id: int
    uid: str
    epoch: int
    beat: int
    mark: str
    paused: str | None
    moved: str | None
    seen_at: int
    key_id: str | None
    client_key: str | None
    signing_key: str | None


class OrganizationRow(TypedDict):
    number: int
    id: str
    name: str
    tier: str
    account_groups: str | None
    created_at: int
    deleted_at: int | None


class ProfileRow(TypedDict):
    number: int
    id: str
    organization: str
    name: str
    slug: str
    slots: str | None
    created_at: int
    updated_at: int
    deleted_at: int | None


class UserRow(TypedDict):
    id: str
    organization: str
    email: str
    role: str
    password: str | None
    totp: str | None
    totp_step: int
    zone: str | None
    views: str | None
    created_at: int


class ApiKeyRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    name: str
    prefix: str
    last4: str
    digest: str
    scopes: str | None
    accounts: str | None
    expires_at: int | None
    notice_days: int | None
    created_at: int
    last_used_at: int | None
    revoked_at: int | None


class OAuthClientRow(TypedDict):
    id: str
    name: str
    redirect_uris: str
    created_at: int
    approved_at: int | None
    ends_at: int


class AuthorizationCodeRow(TypedDict):
    id: str
    organization: str
    user: str
    client: str
    redirect_uri: str
    challenge: str
    request: str
    key: str | None
    created_at: int
    ends_at: int


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
    attention: str | None
    renewals: str | None
    renewal_refused_at: int | None
    renewing: str | None
    renewing_until: int | None
    revoked_reason: str | None
    created_at: int
    updated_at: int
    disconnected_at: int | None


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
    frame_rate: float | None
    bit_rate: int | None
    video_codec: str | None
    audio_codec: str | None
    has_audio: bool | None
    alt_text: str | None
    created_at: int
    used_at: int
    deleted_at: int | None


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
    own_text: bool | None
    own_media: bool | None
    options: str
    first_comment: str | None
    external_id: str | None
    scheduled_at: int | None
    next_attempt_at: int | None
    due_at: int | None
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
    thread_of: str | None
    thread_position: int | None
    previous: str | None


class PostDraftRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    title: str | None
    content: str
    scheduled_at: int | None
    status: DraftStatus
    note: str | None
    problems: str
    approved_digest: str | None
    link_digest: str | None
    link_ends_at: int | None
    batch: str | None
    created_by: str
    updated_by: str
    created_at: int
    updated_at: int


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


class WebhookEndpointRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    accounts: str | None
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


class NotificationChannelRow(TypedDict):
    id: str
    organization: str
    profile: str | None
    accounts: str | None
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


class IdempotencyRecordRow(TypedDict):
    id: str
    organization: str
    fingerprint: str
    status: int | None
    body: str | None
    sealed: bool
    batch: str | None
    created_at: int
    ends_at: int
