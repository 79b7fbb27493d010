"""Every page of the route table has a screenshot or a reason for having none."""

from __future__ import annotations

import re

from socialpub.web.routes import ROUTES
from tests.support.browser.screenshots import NO_PICTURE, PARTS, README, ROOT, page_paths, placeholders


def test_what_each_address_may_name_is_known() -> None:
    unknown = [(path, part) for path in page_paths() for part in placeholders(path) if part not in PARTS]
    assert unknown == [], "say in `PARTS` of tests/support/browser/screenshots.py what stands there"
    assert [path for path in page_paths() if len(placeholders(path)) > 1] == []


def test_what_has_no_picture_is_in_the_table() -> None:
    assert NO_PICTURE.keys() <= {route.path for route in ROUTES if route.method == "GET"}


def test_the_readme_shows_three_pictures_that_are_small() -> None:
    shown = re.findall(r"docs/pictures/\w+\.png", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(f"docs/pictures/{name}.png" for name in README)
    for file in shown:
        assert (ROOT / file).stat().st_size < 150_000
