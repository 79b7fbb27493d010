"""The rules of the service itself: a table for `rule_error`, `/v1/rules`, docs and tests.

The platforms' own rules are in `platforms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ServiceRule:
    """A rule of the service itself: id, error code, HTTP status if it differs, texts.

    `stage` is when it is checked: "request" (before anything is written), "deep" (per target, once the media are
    loaded) or "publish" (only in a post's own `error`).
    """

    rule: str
    code: str
    message: str
    remediation: str
    status: int | None = None
    stage: Literal["request", "deep", "publish"] = "request"
    retired: bool = False
    severity: Literal["error", "warning"] = "error"


def _index_by_id(*rows: ServiceRule) -> dict[str, ServiceRule]:
    return {row.rule: row for row in rows}


_VALIDATION_FAILED = "validation_failed"

SERVICE_RULES: dict[str, ServiceRule] = _index_by_id(
    # The batch, in the order in which the rules are checked.
    ServiceRule(
        "body.json", _VALIDATION_FAILED, "The body is not valid JSON.", "Send one JSON object, encoded as UTF-8."
    ),
    ServiceRule("targets.required", _VALIDATION_FAILED, "`targets` is empty.", "Name at least one target."),
    ServiceRule(
        "targets.max",
        _VALIDATION_FAILED,
        "`targets` has more than 25 entries.",
        "Split the batch: at most 25 targets each.",
    ),
    ServiceRule(
        "mode_conflict",
        _VALIDATION_FAILED,
        "`publishNow`, `scheduledAt` and `slot` cannot be used together.",
        "Send one of them: `scheduledAt` or `slot` to schedule, or `publishNow: true` to publish now.",
    ),
    ServiceRule(
        "external_id.taken",
        "idempotency_conflict",
        "Another batch of the organization has this `externalId`.",
        "Choose another `externalId` for other content, or change the batch that has it.",
    ),
    ServiceRule(
        "plan.unknown",
        _VALIDATION_FAILED,
        "There is no such plan, or it has expired.",
        "Check the content again with `plan: true`, and send the new token.",
    ),
    ServiceRule(
        "plan.changed",
        _VALIDATION_FAILED,
        "What the plan would publish is no longer what was checked.",
        "Check the content again with `plan: true`, and send the new token.",
        status=409,
    ),
    ServiceRule(
        "plan.max",
        _VALIDATION_FAILED,
        "The organization has too many unused plans.",
        "Use plans, or wait until some have expired.",
        status=409,
    ),
    ServiceRule(
        "scheduledAt.future",
        _VALIDATION_FAILED,
        "`scheduledAt` is less than 1 second in the future.",
        "Choose a later time, or leave `scheduledAt` out to publish now.",
    ),
    ServiceRule(
        "scheduledAt.no_first_comment",
        _VALIDATION_FAILED,
        "A scheduled post cannot carry `firstComment`.",
        "Remove `firstComment`, or publish immediately.",
    ),
    ServiceRule(
        "scheduledAt.no_bluesky_reply",
        _VALIDATION_FAILED,
        "A scheduled post cannot be a reply.",
        "Remove the reply options, or publish immediately.",
    ),
    ServiceRule(
        "scheduledAt.text_only",
        _VALIDATION_FAILED,
        "Retired: scheduled posts used to be text only. They now accept media.",
        "Nothing to do: this rule is never reported.",
        retired=True,
    ),
    ServiceRule(
        "profile.scope_mismatch",
        _VALIDATION_FAILED,
        "The request names a profile other than the one that the key is limited to.",
        "Leave `profileId` out, or use a key of that profile.",
    ),
    ServiceRule(
        "target.account.not_connected",
        _VALIDATION_FAILED,
        "No account of this platform is connected in the scope of this request.",
        "Connect an account of this platform first, or name another profile.",
    ),
    ServiceRule(
        "target.account.ambiguous",
        _VALIDATION_FAILED,
        "More than one account of this platform is connected.",
        "Name the account by `accountId`.",
    ),
    ServiceRule(
        "targets.account.platform_mismatch",
        _VALIDATION_FAILED,
        "`accountId` and `platform` of a target do not match.",
        "Leave `platform` out, or set it to the platform of the account.",
    ),
    ServiceRule(
        "targets.options.platform_mismatch",
        _VALIDATION_FAILED,
        "`options.platform` is not the platform of the target's account.",
        "Set `options.platform` to the platform of the account.",
    ),
    ServiceRule(
        "slots.profile",
        _VALIDATION_FAILED,
        "`slot` needs one profile, and the organization has several.",
        "Name the profile whose slot the batch takes by `profileId`.",
    ),
    ServiceRule(
        "slots.none",
        _VALIDATION_FAILED,
        "The profile has no free slot in the next 52 weeks.",
        "Define slots with PUT /v1/slots, or send `scheduledAt`.",
    ),
    # Other requests.
    ServiceRule(
        "cursor", _VALIDATION_FAILED, "This cursor does not belong to this list.", "Start again without `cursor`."
    ),
    ServiceRule(
        "idempotency_key.length",
        _VALIDATION_FAILED,
        "The Idempotency-Key is not 1 to 128 printable ASCII characters long.",
        "Use a short unique key, for example a UUID.",
    ),
    ServiceRule(
        "idempotency_key.body_mismatch",
        "idempotency_conflict",
        "This Idempotency-Key was used for a request with another body.",
        "Use a new key for a new request.",
        status=409,
    ),
    ServiceRule(
        "idempotency_key.in_progress",
        "idempotency_conflict",
        "The first request with this Idempotency-Key is still running.",
        "Wait a few seconds and send the same request again.",
        status=409,
    ),
    ServiceRule(
        "http.method",
        _VALIDATION_FAILED,
        "This address does not support this method.",
        "Use one of the methods that `Allow` names.",
        status=405,
    ),
    ServiceRule(
        "http.body_size",
        _VALIDATION_FAILED,
        "The body is larger than this endpoint accepts.",
        "Send a smaller body. Upload media with POST /v1/media.",
        status=413,
    ),
    ServiceRule(
        "http.content_encoding",
        _VALIDATION_FAILED,
        "The body has a Content-Encoding, which this server does not support.",
        "Send the body uncompressed, without a Content-Encoding.",
        status=415,
    ),
    ServiceRule(
        "http.request",
        _VALIDATION_FAILED,
        "The request line or its headers are malformed.",
        "Send a well-formed HTTP/1.1 request.",
    ),
    ServiceRule(
        "http.if_match",
        _VALIDATION_FAILED,
        "The resource has changed: its ETag is not the one that `If-Match` names.",
        "Read the resource, look at what has changed, and send the request again with its ETag as `If-Match`.",
        status=412,
    ),
    ServiceRule(
        "http.busy",
        "internal_error",
        "This server is overloaded at the moment.",
        "Send the request again in a few seconds.",
        status=503,
    ),
    ServiceRule(
        "http.deadline",
        "internal_error",
        "Reading the data took too long and was stopped.",
        "Request less data, for example with a smaller `limit` or a narrower search, or try again in a few seconds.",
        status=503,
    ),
    ServiceRule(
        "http.host",
        _VALIDATION_FAILED,
        "The request is for another host.",
        "Call this server at the address in `server.base_url`. A reverse proxy must pass on the Host header.",
        status=421,
    ),
    ServiceRule(
        "metrics.unforwarded",
        "unauthenticated",
        "Metrics need the token: this request comes through a proxy, or from this machine without a client address.",
        "Send the token in `server.metrics_token`. A reverse proxy must add X-Forwarded-For.",
    ),
    ServiceRule(
        "http.timeout",
        _VALIDATION_FAILED,
        "The request was not complete in time.",
        "Send the headers and the body without pauses.",
        status=408,
    ),
    ServiceRule(
        "api_key.profile_scope",
        "not_found",
        "The key is limited to another profile.",
        "Leave `profileId` out, or use a key of that profile.",
    ),
    ServiceRule(
        "api_key.scope",
        "unauthorized",
        "The key lacks the scope that this operation needs.",
        "Use a key that has the scope. The scopes of a key cannot be changed.",
    ),
    ServiceRule(
        "api_key.expired",
        "unauthenticated",
        "The API key has expired.",
        "Create a new key and use it instead.",
    ),
    ServiceRule(
        "session.proof",
        "unauthorized",
        "Confirm your password: you entered it more than ten minutes ago.",
        "Enter your password and send the form again. If you call the API, sign in again first.",
    ),
    ServiceRule("csrf", "unauthorized", "The CSRF token is missing or wrong.", "Reload the page and try again."),
    ServiceRule(
        "post.status",
        _VALIDATION_FAILED,
        "The post is not in a state that allows this.",
        "Read the post's status. Only a `queued` post can be edited, rescheduled or canceled.",
        status=409,
    ),
    ServiceRule(
        "post.scheduledAt.window",
        _VALIDATION_FAILED,
        "The post is due. It can no longer be edited, rescheduled or canceled.",
        "Read the post to see its outcome.",
        status=409,
    ),
    ServiceRule(
        "post.retry.status",
        _VALIDATION_FAILED,
        "Only a `failed` or `rejected` post can be retried.",
        "Read the post's status.",
        status=409,
    ),
    ServiceRule(
        "post.retry.unsettled",
        _VALIDATION_FAILED,
        "The outcome of this post is unknown, so it cannot be retried.",
        "Check the account, then report whether the post is there with POST /v1/posts/{id}/settle.",
        status=409,
    ),
    ServiceRule(
        "post.retry.thread",
        _VALIDATION_FAILED,
        "The piece of the thread before this one is not published.",
        "Retry or settle that piece first: this one follows by itself.",
        status=409,
    ),
    ServiceRule(
        "post.thread.waiting",
        _VALIDATION_FAILED,
        "This piece of a thread cannot be moved alone: it is published after the piece before it.",
        "Move the first piece: the others follow it.",
        status=409,
    ),
    ServiceRule(
        "post.duplicate",
        _VALIDATION_FAILED,
        "The same text was sent to the same account within the last 24 hours.",
        'Check the earlier post. To publish the text again, send `"onDuplicate": "warn"`.',
        status=409,
    ),
    ServiceRule(
        "post.settle.status",
        _VALIDATION_FAILED,
        "The outcome of this post is known.",
        "Read the post's status and error.",
        status=409,
    ),
    ServiceRule(
        "draft.status",
        _VALIDATION_FAILED,
        "The draft is not in a state that allows this.",
        "Read the draft. A published draft cannot be changed; its `batchId` names the posts.",
        status=409,
    ),
    ServiceRule(
        "draft.approval",
        _VALIDATION_FAILED,
        "This content is not approved, and this server publishes only approved drafts.",
        "Propose the draft, and have it approved as it is now.",
        status=409,
    ),
    ServiceRule(
        "draft.changed",
        _VALIDATION_FAILED,
        "The draft has changed while this request was checked.",
        "Read the draft, look at what has changed, and send the request again.",
        status=409,
    ),
    ServiceRule(
        "draft.incomplete",
        _VALIDATION_FAILED,
        "The draft cannot be approved, because it does not say yet what would be published where.",
        "Complete the draft: `problems` lists what is missing.",
        status=409,
    ),
    ServiceRule(
        "drafts.max",
        _VALIDATION_FAILED,
        "The organization has as many unpublished drafts as it may have.",
        "Publish or delete drafts first.",
        status=409,
    ),
    ServiceRule(
        "account.platform",
        _VALIDATION_FAILED,
        "The account's platform does not support this operation.",
        "Use an account of the platform in the path.",
    ),
    ServiceRule(
        "connect.state",
        _VALIDATION_FAILED,
        "This connection attempt is unknown, used or expired.",
        "Start the connection again.",
    ),
    ServiceRule(
        "pinterest.board.unknown",
        _VALIDATION_FAILED,
        "The account has no board with this id.",
        "List the account's boards and use one of their ids.",
    ),
    ServiceRule("webhook.url.scheme", _VALIDATION_FAILED, "A webhook URL must be https.", "Use an https URL."),
    ServiceRule(
        "webhook.url.address",
        _VALIDATION_FAILED,
        "The webhook URL points to a private or special address.",
        "Use a public address.",
    ),
    ServiceRule(
        "webhook.endpoints.max",
        _VALIDATION_FAILED,
        "The organization has the maximum number of webhook endpoints.",
        "Delete an endpoint that you no longer need.",
        status=409,
    ),
    ServiceRule(
        "notification.channels.max",
        _VALIDATION_FAILED,
        "The organization has the maximum number of notification channels.",
        "Delete a channel that you no longer need.",
        status=409,
    ),
    ServiceRule(
        "notification.email.off",
        _VALIDATION_FAILED,
        "This server cannot send e-mail: no mail server is set up.",
        "Ask the operator to set smtp.host and smtp.sender, or choose another kind of channel.",
    ),
    ServiceRule(
        "profile.delete.not_empty",
        _VALIDATION_FAILED,
        "The profile still has connected accounts.",
        "Disconnect its accounts first.",
        status=409,
    ),
    ServiceRule(
        "profile.slug.unique",
        _VALIDATION_FAILED,
        "Another profile of the organization has this slug.",
        "Choose another name.",
        status=409,
    ),
    # Media of every platform.
    ServiceRule(
        "media.source",
        _VALIDATION_FAILED,
        "A media item must name exactly one of `mediaId`, `url`, `bytesBase64`.",
        "Set exactly one of them.",
    ),
    ServiceRule(
        "media.base64_invalid",
        _VALIDATION_FAILED,
        "`bytesBase64` is empty or not base64.",
        "Encode the file's bytes as standard base64.",
    ),
    ServiceRule(
        "media.unknown",
        "not_found",
        "There is no media with this id in the scope of this request.",
        "Upload the file first, or use an id of this profile.",
    ),
    ServiceRule(
        "media.kind_mismatch",
        "preflight_failed",
        "`kind` does not match the file.",
        "Correct `kind`.",
        stage="deep",
    ),
    ServiceRule(
        "media.url.disallowed",
        "preflight_failed",
        "This server cannot fetch this media URL: it must be https, without credentials, at a public address.",
        "Use a public https URL, or upload the file.",
        stage="deep",
    ),
    ServiceRule(
        "media.type_unsupported",
        _VALIDATION_FAILED,
        "The file is not a JPEG, PNG, WebP, GIF, MP4, QuickTime, WebM or PDF file.",
        "Convert the file first.",
    ),
    ServiceRule(
        "media.type_mismatch",
        _VALIDATION_FAILED,
        "The declared content type does not match the file.",
        "Declare the file's actual type, or none.",
    ),
    ServiceRule(
        "media.size_max",
        _VALIDATION_FAILED,
        "The file is larger than this server accepts.",
        "Send a smaller file.",
        status=413,
    ),
    ServiceRule(
        "media.quota",
        _VALIDATION_FAILED,
        "The organization's media would exceed its quota on this server.",
        "Delete media that you no longer need.",
        status=413,
    ),
    ServiceRule(
        "media.pixels_max",
        _VALIDATION_FAILED,
        "The image has more than 50,000,000 pixels.",
        "Scale the image down.",
    ),
    ServiceRule(
        "media.unreadable",
        _VALIDATION_FAILED,
        "The file is damaged: it cannot be read.",
        "Open the file in an editor, save it again and upload the new file.",
    ),
    ServiceRule(
        "media.content_type",
        _VALIDATION_FAILED,
        "The body is not multipart/form-data.",
        "Send the file as a part `file`.",
    ),
    ServiceRule(
        "media.parse_failed",
        _VALIDATION_FAILED,
        "The multipart body is broken.",
        "Use an HTTP library to build the body.",
    ),
    ServiceRule(
        "media.missing_file",
        _VALIDATION_FAILED,
        "The multipart body has no part `file`.",
        "Send the file as a part `file`.",
    ),
    ServiceRule("media.empty_body", _VALIDATION_FAILED, "The file has 0 bytes.", "Send a file with content."),
    ServiceRule(
        "media.single_file",
        _VALIDATION_FAILED,
        "The multipart body has more than one file.",
        "Send one file per request.",
    ),
    ServiceRule(
        "media.in_use",
        _VALIDATION_FAILED,
        "A post that is not finished, or a draft, uses this media.",
        "Take it out of the post or the draft, or cancel the post or delete the draft, first.",
        status=409,
    ),
    # Money, storage, publishing.
    ServiceRule(
        "billing.posts.monthly_cap",
        "quota_exceeded",
        "This batch exceeds the monthly post quota.",
        "Wait for the next month or move to a larger tier.",
        status=402,
    ),
    ServiceRule(
        "service.paused",
        "internal_error",
        "Publishing is paused on this server.",
        "Ask the operator to resume publishing. Scheduled posts are still accepted.",
        status=503,
    ),
    ServiceRule(
        "service.stopping",
        "internal_error",
        "The server is stopping.",
        "Send the request again in a few seconds.",
        status=503,
    ),
    ServiceRule(
        "storage.unavailable",
        "internal_error",
        "This server cannot save changes at the moment.",
        "Send the request again later. Nothing was changed.",
        status=503,
    ),
    ServiceRule(
        "publish.outcome_unknown",
        "platform_unavailable",
        "The post was sent, but the platform's response was lost. The post may be published.",
        "Check the account on the platform, then report whether the post is there with POST /v1/posts/{id}/settle.",
        stage="publish",
    ),
    ServiceRule(
        "thread.previous_missing",
        "platform_unavailable",
        "The piece of the thread before this one was not published.",
        "Retry or settle that piece: this one follows by itself.",
        stage="publish",
    ),
    ServiceRule(
        "schedule.overdue",
        "internal_error",
        "The post could not be sent when it was due, nor within the grace period after that.",
        "To publish it now, use POST /v1/posts/{id}/retry.",
        stage="publish",
    ),
    ServiceRule(
        "account.reconnect_required",
        "platform_auth_failed",
        "The account's authorization was revoked or has expired.",
        "Reconnect the account, then retry the post.",
        stage="publish",
    ),
    ServiceRule(
        "account.disconnected",
        "platform_auth_failed",
        "The account was disconnected before the post was published.",
        "Reconnect the account, then retry the post.",
        stage="publish",
    ),
)
