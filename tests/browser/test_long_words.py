"""Every page where names and texts are very long words: nothing of it is out of sight."""

from __future__ import annotations

import pytest

from tests.browser import worlds
from tests.browser.chromium import chromium
from tests.browser.screenshots import sign_in
from tests.browser.test_every_page import look_at, views_inside

pytestmark = pytest.mark.browser


def test_words_that_do_not_end_are_kept_on_the_page() -> None:
    with worlds.long() as world, chromium() as tab:
        sign_in(tab, world)
        for view in views_inside(world):
            look_at(tab, world, view)
