"""Routes for other machines: probes, metrics, billing, media files, OAuth client metadata."""

from __future__ import annotations

from socialpub.web.api import billing, media
from socialpub.web.http import request_body
from socialpub.web.http.handler import GET, POST, Route
from socialpub.web.ops import health, metrics, oauth_client, oauth_server

# fmt: off
ROUTES: tuple[Route, ...] = (
    Route(GET, "/healthz", health.healthz, operation=health.HEALTHZ, cancellable=True),
    Route(GET, "/readyz", health.readyz, operation=health.READYZ),
    Route(GET, "/metrics", metrics.read_metrics),
    Route(POST, "/billing/lemonsqueezy", billing.receive_webhook, body_bytes=request_body.SMALL_BODY_MAX),
    Route(GET, "/media/<media_id:str>/<name:str>", media.download),
    Route(GET, "/oauth/client-metadata.json", oauth_client.read_metadata),
    Route(GET, "/oauth/jwks.json", oauth_client.read_jwks),
    Route(GET, "/.well-known/oauth-authorization-server", oauth_server.read_server, is_oauth=True),
    Route(GET, "/.well-known/oauth-protected-resource", oauth_server.read_resource, is_oauth=True),
    Route(POST, "/oauth/register", oauth_server.register, is_oauth=True, limit="failed_logins",
          body_bytes=request_body.SMALL_BODY_MAX),
    Route(POST, "/oauth/token", oauth_server.exchange, is_oauth=True, limit="failed_logins",
          body_bytes=request_body.SMALL_BODY_MAX),
)
# fmt: on
