"""Query for events about the end of a platform's API version."""

from __future__ import annotations

import json
from typing import Any

from tests.support.app_server import AppServer


def version_notices(server: AppServer) -> list[tuple[str, dict[str, Any]]]:
    """Whom, and what, in the order of the telling."""
    told = server.happened(type="version.deprecated")
    return [(event.organization, json.loads(event.data)) for event in told]
