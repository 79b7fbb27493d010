"""The route table: every address of the server, in four parts."""

from __future__ import annotations

from socialpub.web.http.handler import Route
from socialpub.web.routes import api, dashboard, docs, ops

ROUTES: tuple[Route, ...] = (*api.ROUTES, *ops.ROUTES, *dashboard.ROUTES, *docs.ROUTES)
