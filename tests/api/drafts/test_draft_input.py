"""Bad input of drafts: refused, or only a problem of the draft."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.app_server import UNKNOWN_MEDIA, error_of, unchanged
from tests.support.post_drafts import PATH, change_draft, new_draft
from tests.support.request_cast import RequestCast, inline_item, make_picture


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"targets": []}, "targets.required"),
        ({"targets": [{"text": "x"}]}, "targets.0.accountId"),
        ({"targets": [{"platform": "twitter"}], "text": "x"}, "target.account.not_connected"),
        ({"media": [UNKNOWN_MEDIA]}, "media.unknown"),
        ({"publishNow": True, "scheduledAt": "2999-01-01T00:00:00Z"}, "mode_conflict"),
    ],
)
def test_a_problem_of_the_whole_request(corpus: RequestCast, fields: dict[str, Any], rule: str) -> None:
    (problem,) = new_draft(corpus.alice.api, **corpus.body(**fields))["problems"]
    assert problem.get("rule", problem["code"]) == rule
    assert problem["docUrl"].endswith(f"/docs/errors/{problem['code']}")


BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"txt": "x"}, ["txt"]),
    ({"text": 1, "title": 2, "targets": [{"acount": 1}]}, ["targets.0.acount", "text", "title"]),
    ({"title": "x" * 201}, ["title"]),
    ({"text": None}, ["text"]),
    ({"scheduledAt": "tomorrow"}, ["scheduledAt"]),
    ({"targets": [{}] * 26}, ["targets.max"]),
    ({"media": [{"kind": "image"}]}, ["media.source"]),
    ({"media": [inline_item(make_picture()) | {"mediaId": UNKNOWN_MEDIA}]}, ["media.source"]),
    ({"media": [{"kind": "image", "bytesBase64": "?"}]}, ["media.base64_invalid"]),
]


@pytest.mark.parametrize(("fields", "wanted"), BAD)
def test_bad_input_is_refused_with_all_its_faults(
    corpus: RequestCast, fields: dict[str, Any], wanted: list[str]
) -> None:
    api = corpus.alice.api
    draft = new_draft(api)["id"]
    content = {name: value for name, value in fields.items() if name != "title"}
    changed = ({"title": fields["title"]} if "title" in fields else {}) | ({"content": content} if content else {})
    with unchanged(corpus.server):
        for answer, at in (
            (api.post(PATH, json=fields), ""),
            (change_draft(api, draft, **changed), "content."),
        ):
            error = error_of(answer)
            assert (answer.status_code, error["code"]) == (400, "validation_failed")
            paths = {".".join(map(str, issue["path"])) for issue in error.get("platformResponse") or ()}
            named = {path.removeprefix(at) for path in paths} or {error["rule"]}
            assert named == set(wanted)
