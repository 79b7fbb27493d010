"""Text of docs/CONTRIBUTING.md, and values of hidden form fields."""

from __future__ import annotations

import re

from tests.support.checkout_copy import ROOT

GUIDE = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")


def hide_directives(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, page
    return found[1]
