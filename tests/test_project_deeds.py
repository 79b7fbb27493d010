"""Every act has its words: a page that acts has a line in `web/pages/deeds.py`, so that the log of acts tells of it."""

from __future__ import annotations

from socialpub.web.app import ROUTES
from socialpub.web.pages import deeds

TELL_NOTHING = {"POST /billing/lemonsqueezy"}  # nobody's act: a notice of the shop


def test_every_route_that_acts_has_words_in_the_log() -> None:
    acting = {f"{route.method} {route.path}" for route in ROUTES if route.method != "GET"}
    lacking = sorted(acting - set(deeds.words_of(ROUTES)) - TELL_NOTHING)
    assert lacking == [], "give each of these its words and its kind in socialpub/web/pages/deeds.py (PAGES)"


def test_every_act_is_of_one_kind() -> None:
    kinds = [verb for kind in deeds.KINDS for verb in deeds.verbs_of(kind, ROUTES)]
    assert set(deeds.words_of(ROUTES)) == set(kinds), "the API's addresses have their kind in `SEGMENTS`"
    assert len(kinds) == len(set(kinds))


def test_the_words_are_of_routes_that_there_are() -> None:
    there = {f"{route.method} {route.path}" for route in ROUTES}
    named = {verb for verb in deeds.words_of(ROUTES) if verb.startswith(("GET /", "POST /"))}
    assert {verb.removesuffix(" with a recovery code") for verb in named} <= there
