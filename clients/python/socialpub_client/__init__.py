"""Python client of socialpub: publish, check, watch and change posts over its HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from socialpub_client.client import AsyncSocialpub, Socialpub
from socialpub_client.content import Media, Target
from socialpub_client.engine import Answer, Runtime
from socialpub_client.errors import (
    ConfigurationError,
    ConnectionFailed,
    IdempotencyConflict,
    InternalError,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    PlatformAuthFailed,
    PlatformNotEnabled,
    PlatformRejected,
    PlatformUnavailable,
    PreflightFailed,
    PublishFailed,
    QuotaExceeded,
    RateLimited,
    SignatureError,
    SocialpubError,
    Unauthenticated,
    Unauthorized,
    UnexpectedAnswer,
    ValidationFailed,
    WaitTimedOut,
)
from socialpub_client.events import Event
from socialpub_client.messages import AsyncTransport, Request, Response, Timeout, Transport, TransportError
from socialpub_client.operations import AsyncPages, Pages

if TYPE_CHECKING:
    from socialpub_client.results import AsyncBatch, Batch, Check

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "AsyncBatch",
    "AsyncPages",
    "AsyncSocialpub",
    "AsyncTransport",
    "Batch",
    "Check",
    "ConfigurationError",
    "ConnectionFailed",
    "Event",
    "IdempotencyConflict",
    "InternalError",
    "InvalidArgument",
    "Media",
    "NotFound",
    "OutcomeUnknown",
    "Pages",
    "PlatformAuthFailed",
    "PlatformNotEnabled",
    "PlatformRejected",
    "PlatformUnavailable",
    "PreflightFailed",
    "PublishFailed",
    "QuotaExceeded",
    "RateLimited",
    "Request",
    "Response",
    "Runtime",
    "SignatureError",
    "Socialpub",
    "SocialpubError",
    "Target",
    "Timeout",
    "Transport",
    "TransportError",
    "Unauthenticated",
    "Unauthorized",
    "UnexpectedAnswer",
    "ValidationFailed",
    "WaitTimedOut",
]


def __getattr__(name: str) -> Any:
    if name in ("AsyncBatch", "Batch", "Check"):  # classes of answers, which are made when they are needed
        from socialpub_client import results

        return getattr(results, name)
    raise AttributeError(name)
