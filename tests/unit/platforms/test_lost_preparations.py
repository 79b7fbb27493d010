"""Retries of a post whose preparations a platform has lost, for every platform."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.platforms.bluesky import video
from tests.support.platforms.post_kinds import KINDS, KindCase

ATTEMPTS = 5
FAULTS = [{"fault": "status:500", "operation": name, "times": 1} for name in ("app.bsky.video.uploadPart",)]
PREPARED = ("bluesky", "instagram", "linkedin", "pinterest", "threads", "tiktok", "twitter")  # with a state
UPLOADED = [(name, kind) for name, kind in KINDS if name in PREPARED and kind != "gate"]


def list_lost(state: Any) -> Iterator[Any]:
    """Yield a state with each of its ids replaced by one that the platform does not know."""
    parts = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, inner in parts:
        unknown = _make_unknown(inner) if isinstance(inner, str) and inner and key not in ("phase", "publish") else []
        for changed in (*unknown, *list_lost(inner)):
            made = state.copy()
            made[key] = changed
            yield made


def _make_unknown(id: str) -> list[str]:
    return ["9" * len(id)] if id.isdigit() else [f"{id}x"]


def exhaust(state: Any) -> Any:
    """A state as an attempt leaves it whose calls have failed too often."""
    return json.loads(re.sub(r'"misses": [0-9]', '"misses": 9', json.dumps(state)))


def retry(case: KindCase, saved: Any) -> list[str]:
    """Prepare as a scheduled post is; return the errors if no attempt tells more than the one before."""
    errors = []
    for _ in range(ATTEMPTS):
        try:
            case.prepare(case.draft(), saved)
        except ApiError as error:
            if error.code != "platform_unavailable" or not error.retryable:
                return []  # the post fails with this error
            errors.append(error.message)
            saved = None if error.prepare_again else case.states[-1] if case.states else saved
        else:
            return []
    return errors


@pytest.mark.parametrize(("name", "kind"), UPLOADED)
def test_what_a_platform_has_lost_is_prepared_again(
    make_case: Callable[[str, str], KindCase], monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    case = make_case(name, kind)
    for parts_from in (video.PARTS_FROM, 0):
        monkeypatch.setattr(video, "PARTS_FROM", parts_from)
        case.simulator.lab.faults.add(FAULTS)
        case.prepare(case.begin(), None)
        lost = {json.dumps(each) for state in case.states for each in list_lost(state)}
        assert lost or kind in ("words", "mention", "image", "images")
        for state in map(json.loads, sorted(lost)):
            for saved in (state, exhaust(state)):
                case.begin()
                assert retry(case, saved) == [], saved
