"""Errors: one class for each error code of the API, and those that no answer carries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeGuard, TypeVar

from socialpub_client import models

T = TypeVar("T")


class SocialpubError(Exception):
    """Error of a call, with what the API says about it.

    `rule`: the broken rule. `retry_after`: seconds to wait. `envelope`: the whole JSON error, empty without an answer.
    """

    CODE: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        rule: str | None = None,
        status: int | None = None,
        remediation: str = "",
        doc_url: str = "",
        rule_url: str | None = None,
        request_id: str | None = None,
        platform_response: Any = None,
        retry_after: int | None = None,
        envelope: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.CODE
        self.rule = rule
        self.status = status
        self.remediation = remediation
        self.doc_url = doc_url
        self.rule_url = rule_url
        self.request_id = request_id
        self.platform_response = platform_response
        self.retry_after = retry_after
        self.envelope: Mapping[str, Any] = envelope or {}

    def __str__(self) -> str:
        about = ", ".join(part for part in (self.code, self.rule) if part)
        return f"{self.message}{f' ({about})' if about else ''}{f' {self.remediation}' if self.remediation else ''}"


# --- One for each code of the catalogue ----------------------------------------------------------------------------


class ValidationFailed(SocialpubError):
    """The request does not match the schema or breaks a rule of the batch."""

    CODE = "validation_failed"

    @property
    def issues(self) -> tuple[models.ValidationIssue, ...]:
        """The violations of the request's schema; empty where a rule was broken instead."""
        return tuple(_read_entries(models.ValidationIssue.parse, self.platform_response))


class PreflightFailed(SocialpubError):
    """The content breaks a documented limit of a platform; nothing was sent."""

    CODE = "preflight_failed"

    @property
    def failures(self) -> tuple[models.PreflightFailure, ...]:
        """One for each target and rule."""
        return tuple(_read_entries(models.PreflightFailure.parse, self.platform_response))


class PlatformAuthFailed(SocialpubError):
    """The platform rejected the account's authorization."""

    CODE = "platform_auth_failed"


class PlatformRejected(SocialpubError):
    """The platform rejected the content."""

    CODE = "platform_rejected"


class PlatformUnavailable(SocialpubError):
    """The platform could not be reached or is overloaded."""

    CODE = "platform_unavailable"


class PlatformNotEnabled(SocialpubError):
    """The platform is not enabled on the server."""

    CODE = "platform_not_enabled"


class InternalError(SocialpubError):
    """Something went wrong on the server."""

    CODE = "internal_error"


class Unauthenticated(SocialpubError):
    """The API key is missing, malformed, revoked, expired or unknown."""

    CODE = "unauthenticated"


class Unauthorized(SocialpubError):
    """The key is not allowed to do this."""

    CODE = "unauthorized"


class NotFound(SocialpubError):
    """Nothing in the key's organization and profile has this address or id."""

    CODE = "not_found"


class IdempotencyConflict(SocialpubError):
    """The idempotency key or the external id belongs to another request."""

    CODE = "idempotency_conflict"


class RateLimited(SocialpubError):
    """Too many requests in the last minute."""

    CODE = "rate_limited"


class QuotaExceeded(SocialpubError):
    """The monthly post quota is used up."""

    CODE = "quota_exceeded"


BY_CODE: dict[str, type[SocialpubError]] = {each.CODE: each for each in SocialpubError.__subclasses__()}


# --- Those that no answer carries ----------------------------------------------------------------------------------


class UnexpectedAnswer(SocialpubError):
    """The answer is not of socialpub: of a proxy, or of another program at the address."""

    CODE = "unexpected_answer"


class ConnectionFailed(SocialpubError):
    """The server was not reached, and nothing was accepted."""

    CODE = "connection_failed"


class OutcomeUnknown(SocialpubError):
    """The tries ended without an answer, and the server may have accepted the request.

    Repeat the same call with `idempotency_key`: it is accepted once.
    """

    CODE = "outcome_unknown"

    def __init__(
        self,
        message: str,
        idempotency_key: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(
            message,
            remediation=f"Repeat the same call with idempotency_key={idempotency_key!r}: it is accepted at most once.",
            status=status,
            request_id=request_id,
            retry_after=retry_after,
        )
        self.idempotency_key = idempotency_key


class PublishFailed(SocialpubError):
    """At least one target of a batch was not published; `batch` says which."""

    CODE = "publish_failed"

    def __init__(self, batch: models.BatchData) -> None:
        super().__init__(f"Batch {batch.id} is {batch.status}: {_failures(batch)}")
        self.batch = batch


class WaitTimedOut(SocialpubError):
    """The wait for a batch ended before the batch did; `batch` is its last state."""

    CODE = "wait_timed_out"

    def __init__(self, batch: models.BatchData, seconds: float, reason: str = "") -> None:
        end = f", and could not be read again: {reason}" if reason else f" after {seconds:g} s."
        super().__init__(f"Batch {batch.id} is still {batch.status}{end}")
        self.batch = batch


class InvalidArgument(SocialpubError, ValueError):
    """An argument cannot be sent; no request was made."""

    CODE = "invalid_argument"


class ConfigurationError(SocialpubError):
    """The client has no usable address or key."""

    CODE = "configuration"


class SignatureError(SocialpubError):
    """A webhook's signature is absent, wrong or too old."""

    CODE = "signature"


def _read_entries(parse: Callable[[Any], T], detail: object) -> Iterator[T]:
    """Yield the entries of a list of details that are of one kind."""
    for each in detail if _is_list(detail) else ():
        with contextlib.suppress(KeyError, TypeError):
            yield parse(each)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _failures(batch: models.BatchData) -> str:
    return "; ".join(
        f"{each.platform} {each.status}: {each.error.message}" for each in batch.results if each.error is not None
    )
