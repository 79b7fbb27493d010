"""A new endpoint, made in a copy of this checkout exactly as docs/CONTRIBUTING.md says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.checkout_copy import copy_checkout, run_command, run_module, running_demo, source_files
from tests.support.contributing_guide import GUIDE, hide_directives

PART = GUIDE.partition("\n## Adding an endpoint\n")[2].partition("\n## ")[0]
RECIPE = re.findall(r"^```sh\n(.*?)^```$", PART, re.M | re.S)
ADDRESS = "/v1/profiles/{id}/api-keys"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("endpoint"))


@pytest.fixture(scope="module")
def before(checkout: Path) -> dict[str, bytes]:
    return source_files(checkout)


@pytest.fixture(scope="module")
def copy(checkout: Path, before: dict[str, bytes]) -> Path:
    """The copy with the endpoint, as after `make fix`."""
    for step in RECIPE:
        run_command(["sh", "-euc", step], checkout)
    run_module(checkout, "ruff", "check", "--fix-only", "--quiet", ".")
    run_module(checkout, "ruff", "format", "--quiet", ".")
    return checkout


@pytest.fixture(scope="module")
def demo(copy: Path) -> Iterator[dict[str, Any]]:
    with running_demo(copy) as said:
        yield said


def test_a_new_endpoint_touches_four_files_its_test_included(copy: Path, before: dict[str, bytes]) -> None:
    after = source_files(copy)
    assert sorted(name for name in after if after[name] != before.get(name)) == [
        "socialpub/domain/identity/api_keys.py",
        "socialpub/web/api/keys.py",
        "socialpub/web/routes/api.py",
        "tests/api/identity/test_revoke_all.py",
    ]
    assert before.keys() <= after.keys()
    table = "socialpub/web/routes/api.py"
    assert after[table].count(b"\n") - before[table].count(b"\n") == 2  # its line


def test_it_answers_and_is_in_the_description_and_the_reference(demo: dict[str, Any]) -> None:
    with httpx.Client(base_url=demo["url"], trust_env=False, follow_redirects=True, timeout=60) as browser:
        page = browser.get("/login").text
        form = {"csrf_token": hide_directives(page, "csrf_token"), "next": "/"}
        home = browser.post("/login", data=form | demo["login"], headers={"Origin": demo["url"]}).text
        token = re.search(r'<meta name="csrf-token" content="([^"]+)"', home)
        assert token is not None, home
        headers = {"Origin": demo["url"], "X-CSRF-Token": token[1]}
        (profile,) = browser.get("/v1/profiles").json()["data"]
        given = {"name": "bound", "profileId": profile["id"]}
        made = browser.post("/v1/api-keys", json=given, headers=headers).json()
        asked = headers | {"Idempotency-Key": "once"}
        answers = [browser.delete(ADDRESS.format(**profile), headers=asked) for _ in range(2)]
        assert made["id"] in [row["id"] for row in answers[0].json()["data"]]  # with the one of the demo
        assert answers[0].text == answers[1].text  # the second is the kept answer of the first
        operation = browser.get("/openapi.json").json()["paths"][ADDRESS]["delete"]
        assert operation["operationId"] == "revokeProfileKeys"
        assert {"200", "401", "403", "404", "429"} <= operation["responses"].keys()
        assert "Revoke every key of a profile" in browser.get("/docs/reference").text


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        ("tests/api/identity/test_revoke_all.py", ""),
        pytest.param(
            "tests/isolation/test_lost_authority.py",
            "table or roles or another_way or api-keys",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "tests/api/openapi/test_document.py tests/project/test_action_owners.py",
            "not schemathesis",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_its_own_tests_and_those_of_every_endpoint_pass(copy: Path, paths: str, chosen: str) -> None:
    run_module(copy, "pytest", "-p", "no:cacheprovider", "-k", chosen, *paths.split())


@pytest.mark.slow
def test_the_linters_have_nothing_to_say(copy: Path) -> None:
    run_module(copy, "ruff", "check", ".")
    run_module(copy, "ruff", "format", "--check", ".")
    run_module(copy, "mypy", "--cache-dir", str(copy / ".mypy_cache"))
    run_command([Path(sys.executable).with_name("lint-imports"), "--no-cache"], copy)
