"""The known path that a mistyped one is nearest to, for the remediation of a 404."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Sequence

from socialpub.web.http.handler import Route
from socialpub.web.openapi.document import public_path

PATH_MAX = 100  # characters of a path that is compared: comparing takes time with the square of them
SIMILARITY_MIN = 0.7


def suggest(path: str, routes: tuple[Route, ...]) -> str | None:
    """The path of a route, as in the reference (`/v1/posts/{id}`), that is most like `path`; None: none is close."""
    given = [part for part in path.lower().split("/") if part]
    if len(path) > PATH_MAX:
        return None
    if given[:1] == ["api"]:  # a prefix that servers of others have
        given = given[1:]
    scores = {known: _similarity(given, known.strip("/").split("/")) for known in _known_paths(routes)}
    best = max(scores, key=lambda known: scores[known])
    return best if scores[best] >= SIMILARITY_MIN else None


def _similarity(given: Sequence[str], known: Sequence[str]) -> float:
    """How alike two paths are that differ in one part at most, from 0 to 1; parameters are like anything."""
    if len(given) != len(known):
        return 0.0
    pairs = [(asked, fixed) for asked, fixed in zip(given, known, strict=True) if not fixed.startswith("{")]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if not differing:
        return 1.0
    asked, fixed = differing[0]
    same = len(known) + sum(len(part) for _, part in pairs) - len(fixed)  # characters, slashes included
    whole = 2 * same + len(asked) + len(fixed)
    if len(differing) > 1 or 2 * (same + min(len(asked), len(fixed))) < SIMILARITY_MIN * whole:
        return 0.0
    blocks = difflib.SequenceMatcher(None, asked, fixed, autojunk=False).get_matching_blocks()
    return 2 * (same + sum(block.size for block in blocks)) / whole


@functools.lru_cache(1)
def _known_paths(routes: tuple[Route, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(public_path(route.path) for route in routes))
