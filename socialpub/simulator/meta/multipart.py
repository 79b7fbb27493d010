"""Forms with files (RFC 7578), as clients of Graph send them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from socialpub.simulator.contract import Call
from socialpub.simulator.forms import fields


@dataclass(frozen=True)
class Form:
    """Form texts, and files as (content type, bytes)."""

    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)


def form_of(call: Call) -> Form:
    """Parse the call's parameters and files, in any form encoding."""
    texts = fields(call)
    found = re.search(r'boundary="?([^";]+)', call.headers.get("content-type", ""))
    if not found:
        return Form(texts)
    files = {}
    for part in call.body.split(b"--" + found[1].encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        content = content.removesuffix(b"\r\n")
        name = re.search(rb'name="([^"]+)"', head)
        kind = re.search(rb"Content-Type: ([^\r\n]+)", head)
        if name and b"filename=" in head:
            files[name[1].decode()] = (kind[1].decode() if kind else "", content)
        elif name:
            texts[name[1].decode()] = content.decode("utf-8", "replace")
    return Form(texts, files)
