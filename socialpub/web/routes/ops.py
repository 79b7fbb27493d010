"""Routes for other machines: probes, metrics, billing, media files, OAuth client metadata."""

from __future__ import annotations

from socialpub.web.api import billing, media
from socialpub.web.http import request_body
from socialpub.web.http.handler import GET, POST, Route
from socialpub.web.ops import health, metrics, oauth_client

# fmt: off
ROUTES: tuple[Route, ...] = (
    Route(GET, "/healthz", health.healthz, operation=health.HEALTHZ, cancellable=True),
    Route(GET, "/readyz", health.readyz, operation=health.READYZ),
    Route(GET, "/metrics", metrics.read_metrics),
    Route(POST, "/billing/lemonsqueezy", billing.receive_webhook, body_bytes=request_body.SMALL_BODY_MAX),
    Route(GET, "/media/<media_id:str>/<name:str>", media.download),
    Route(GET, "/oauth/client-metadata.json", oauth_client.read_metadata),
    Route(GET, "/oauth/jwks.json", oauth_client.read_jwks),
)
# fmt: on
