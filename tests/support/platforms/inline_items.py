"""Media items with inline bytes, and publishing with them."""

from __future__ import annotations

import base64
from typing import Any

from tests.support.app_server import Person


def inline_item(kind: str, data: bytes, **more: str) -> dict[str, str]:
    return {"kind": kind, "bytesBase64": base64.b64encode(data).decode(), **more}


def publish(person: Person, account: dict[str, Any], **body: Any) -> dict[str, Any]:
    """The result of a request with one target. `options`: those of the account's platform."""
    options = {"options": {"platform": account["platform"], **body.pop("options")}} if "options" in body else {}
    answer = person.api.publish({"targets": [{"accountId": account["id"], **options}], **body}).json()
    (result,) = answer["results"]
    return dict(result)
