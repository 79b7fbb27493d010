"""Every route that acts has a label for the audit log page.

The labels are in `web/dashboard/parts/audit_labels.py`.
"""

from __future__ import annotations

from socialpub.web.dashboard.parts import audit_labels
from socialpub.web.routes import ROUTES

TELL_NOTHING = {
    "POST /billing/lemonsqueezy": "nobody's act: a notice of the shop",
    "POST /oauth/register": "a program's, before anybody lets it in",
}
SUFFIXES = (" with a recovery code", " with a refusal", " with a used code")


def test_every_route_that_acts_has_words_in_the_log() -> None:
    acting = {f"{route.method} {route.path}" for route in ROUTES if route.method != "GET"}
    lacking = sorted(acting - set(audit_labels.build_labels(ROUTES)) - TELL_NOTHING.keys())
    assert lacking == [], (
        "give each of these its words and its kind in socialpub/web/dashboard/parts/audit_labels.py (LABELS)"
    )


def test_every_act_is_of_one_kind() -> None:
    kinds = [verb for kind in audit_labels.KIND_LABELS for verb in audit_labels.list_verbs(kind, ROUTES)]
    assert set(audit_labels.build_labels(ROUTES)) == set(kinds), (
        "the API's addresses have their kind in `KINDS_BY_SEGMENT`"
    )
    assert len(kinds) == len(set(kinds))


def test_the_words_are_of_routes_that_there_are() -> None:
    there = {f"{route.method} {route.path}" for route in ROUTES}
    named = {verb for verb in audit_labels.build_labels(ROUTES) if verb.startswith(("GET /", "POST /"))}
    for suffix in SUFFIXES:
        named = {verb.removesuffix(suffix) for verb in named}
    assert named <= there
