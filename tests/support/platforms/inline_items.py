"""Media items with inline bytes."""

from __future__ import annotations

import base64


def inline_item(kind: str, data: bytes, **more: str) -> dict[str, str]:
    return {"kind": kind, "bytesBase64": base64.b64encode(data).decode(), **more}
