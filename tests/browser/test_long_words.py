"""Very long words in names and texts stay inside every page."""

from __future__ import annotations

import pytest

from tests.support.browser import server_states
from tests.support.browser.chromium import chromium
from tests.support.browser.screenshots import sign_in
from tests.support.browser.view_checks import check_views, views_inside

pytestmark = pytest.mark.browser


def test_words_that_do_not_end_are_kept_on_the_page() -> None:
    with server_states.long_words_server() as world, chromium() as tab:
        sign_in(tab, world)
        for view in views_inside(world):
            check_views(tab, world, view)
