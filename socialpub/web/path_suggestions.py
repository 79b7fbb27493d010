"""Suggest the known path nearest to a mistyped one, for the remediation of a 404."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Sequence

from socialpub.web.http.handler import Route
from socialpub.web.openapi.document import public_path

PATH_MAX = 100  # characters; the comparison takes quadratic time
SIMILARITY_MIN = 0.7


def suggest(path: str, routes: tuple[Route, ...]) -> str | None:
    """Return the route path (as in the reference) most like `path`, or None."""
    given = [part for part in path.lower().split("/") if part]
    if len(path) > PATH_MAX:
        return None
    if given[:1] == ["api"]:  # a prefix common on other servers
        given = given[1:]
    scores = {known: _similarity(given, known.strip("/").split("/")) for known in _known_paths(routes)}
    best = max(scores, key=lambda known: scores[known])
    return best if scores[best] >= SIMILARITY_MIN else None


def _similarity(given: Sequence[str], known: Sequence[str]) -> float:
    """Return the similarity of two paths, 0 to 1.

    It is 0 if more than one part differs; a parameter equals anything.
    """
    if len(given) != len(known):
        return 0.0
    pairs = [(typed, fixed) for typed, fixed in zip(given, known, strict=True) if not fixed.startswith("{")]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if not differing:
        return 1.0
    typed, fixed = differing[0]
    same = len(known) + sum(len(part) for _, part in pairs) - len(fixed)  # characters, slashes included
    whole = 2 * same + len(typed) + len(fixed)
    if len(differing) > 1 or 2 * (same + min(len(typed), len(fixed))) < SIMILARITY_MIN * whole:
        return 0.0
    blocks = difflib.SequenceMatcher(None, typed, fixed, autojunk=False).get_matching_blocks()
    return 2 * (same + sum(block.size for block in blocks)) / whole


@functools.lru_cache(1)
def _known_paths(routes: tuple[Route, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(public_path(route.path) for route in routes))
