"""The error codes, as a table for the envelope, `/v1/errors`, the docs and the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorRow:
    """One error code: its HTTP status, the status of a post with it, and texts for people."""

    code: str
    status: int
    message: str
    remediation: str
    post_status: str = "rejected"


def _index_by_code(*rows: ErrorRow) -> dict[str, ErrorRow]:
    return {row.code: row for row in rows}


ERRORS: dict[str, ErrorRow] = _index_by_code(
    ErrorRow(
        "validation_failed",
        400,
        "The request does not match the schema or breaks a rule of the batch.",
        "Correct the field that `rule` names and send the request again.",
    ),
    ErrorRow(
        "preflight_failed",
        400,
        "The content breaks a documented limit of a platform, so nothing was sent to any platform.",
        "Change the content as `platformResponse` says for each target and send the request again.",
    ),
    ErrorRow(
        "platform_auth_failed",
        424,
        "The platform rejected the account's authorization.",
        "Reconnect the account.",
    ),
    ErrorRow(
        "platform_rejected",
        422,
        "The platform rejected the content.",
        "Read `platformResponse`, change the content and publish it again.",
    ),
    ErrorRow(
        "platform_unavailable",
        503,
        "The platform could not be reached or is overloaded.",
        "Try again later.",
        post_status="failed",
    ),
    ErrorRow(
        "platform_not_enabled",
        403,
        "This platform is not enabled on this server.",
        "Ask the operator of this server to enable the platform.",
    ),
    ErrorRow(
        "internal_error",
        500,
        "Something went wrong on this server.",
        "Try again. If it happens again, give the operator of this server the `requestId`.",
        post_status="failed",
    ),
    ErrorRow(
        "unauthenticated",
        401,
        "The API key is missing, malformed, revoked or unknown.",
        "Send `Authorization: Bearer <API_KEY>` with a key that is not revoked.",
    ),
    ErrorRow(
        "unauthorized",
        403,
        "The caller is not allowed to do this.",
        "Use the dashboard, or a user whose role allows it.",
    ),
    ErrorRow(
        "not_found",
        404,
        "Nothing in the caller's organization and profile has this address or id.",
        "Check the id and the key's scope.",
    ),
    ErrorRow(
        "idempotency_conflict",
        409,
        "This Idempotency-Key belongs to another request.",
        "Use a new Idempotency-Key for a new request. To get the first response again, repeat the exact same request.",
    ),
    ErrorRow(
        "rate_limited",
        429,
        "Too many requests in the last minute.",
        "Wait for the number of seconds in `Retry-After`.",
    ),
    ErrorRow(
        "quota_exceeded",
        402,
        "The monthly post quota is used up.",
        "Wait for the next month or move to a larger tier.",
    ),
)
