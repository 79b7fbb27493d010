"""A ninth platform and a new endpoint, made in a copy as docs/CONTRIBUTING.md says."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from socialpub.platforms import CONNECTORS
from tests.support.checkout_copy import (
    ROOT,
    copy_checkout,
    run_command,
    run_module,
    run_tests,
    running_demo,
    source_files,
)
from tests.support.contributing_guide import GUIDE, hide_directives

PART = GUIDE.partition("\n## A ninth platform\n")[2].partition("\n## ")[0]
ENDPOINT = GUIDE.partition("\n## Adding an endpoint\n")[2].partition("\n## ")[0]
SMALLEST = "threads"
ADDRESS = "/v1/profiles/{id}/api-keys"


def blocks(part: str, kind: str) -> list[str]:
    """The code of this kind in a section."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", part, re.M | re.S)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("copy"))


@pytest.fixture(scope="module")
def before(checkout: Path) -> dict[str, bytes]:
    return source_files(checkout)


@pytest.fixture(scope="module")
def copy(checkout: Path, before: dict[str, bytes]) -> Path:
    """The copy with both, as after `make fix`."""
    for step in blocks(ENDPOINT, "sh") + blocks(PART, "sh"):
        run_command(["sh", "-euc", step], checkout)
    run_module(checkout, "ruff", "check", "--fix-only", "--quiet", ".")
    run_module(checkout, "ruff", "format", "--quiet", ".")
    (checkout / "socialpub.toml.example").write_text(run_module(checkout, "socialpub", "config", "example"))
    return checkout


@pytest.fixture(scope="module")
def demo(copy: Path) -> Iterator[dict[str, Any]]:
    """What the demo of the copy says of itself while it runs."""
    with running_demo(copy) as said:
        yield said


@pytest.fixture
def api(demo: dict[str, Any]) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {demo['key']}"}
    with httpx.Client(base_url=demo["url"], headers=headers, trust_env=False, timeout=60) as client:
        yield client


# --- What the document says --------------------------------------------------------------------------------------


def test_the_example_is_the_smallest_of_the_eight() -> None:
    def lines(name: str) -> int:
        folder = ROOT / "socialpub" / "platforms" / name
        return sum(path.read_text().count("\n") for path in folder.glob("*.py"))

    assert min(CONNECTORS, key=lines) == SMALLEST
    assert f"`platforms/{SMALLEST}/connector.py`" in PART


@pytest.mark.parametrize("code", blocks(PART, "text"))
def test_what_the_document_quotes_stands_in_the_source(code: str) -> None:
    sources = [
        *ROOT.glob(f"socialpub/platforms/{SMALLEST}/*.py"),
        *ROOT.glob(f"socialpub/simulator/{SMALLEST}.py"),
        *ROOT.glob(f"tests/unit/platforms/{SMALLEST}/test_{SMALLEST}.py"),
    ]
    assert any(code in path.read_text(encoding="utf-8") for path in sources)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tests|docs|platforms|simulator)/[\w./]+\.\w+)`", GUIDE))))
def test_every_file_that_the_document_names_is_there(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "socialpub" / path).exists()


# --- What the copy is good for -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_platform_makes_six_files_and_an_endpoint_one(copy: Path, before: dict[str, bytes]) -> None:
    after = source_files(copy)
    assert sorted(after.keys() - before.keys()) == [
        "socialpub/platforms/ninth/__init__.py",
        "socialpub/platforms/ninth/connector.py",
        "socialpub/platforms/ninth/rules.py",
        "socialpub/simulator/ninth.py",
        "tests/api/identity/test_revoke_all.py",
        "tests/unit/platforms/ninth/__init__.py",
        "tests/unit/platforms/ninth/test_ninth.py",
    ]
    changed = [name for name in before if before[name] != after[name]]
    added = {name: after[name].count(b"\n") - before[name].count(b"\n") for name in changed}
    assert added.keys() == {
        "socialpub/domain/identity/api_keys.py",
        "socialpub/platforms/__init__.py",
        "socialpub/simulator/registry.py",
        "socialpub/web/api/keys.py",
        "socialpub/web/routes/api.py",
    }
    # A platform: its import, and its line in two dicts. An endpoint: its line in the table.
    for name in ("platforms/__init__.py", "simulator/registry.py", "web/routes/api.py"):
        assert added[f"socialpub/{name}"] == 2, name


@pytest.mark.slow
def test_the_demo_publishes_to_it(api: httpx.Client, demo: dict[str, Any]) -> None:
    assert {account["platform"] for account in demo["accounts"]} == {*CONNECTORS, "ninth"}
    content = {"targets": [{"platform": "ninth", "options": {"platform": "ninth"}}], "text": "Hello"}
    batch = api.post("/v1/posts", json=content).json()
    assert (batch["status"], batch["results"][0]["platform"]) == ("published", "ninth")
    assert batch["results"][0]["url"].startswith("https://www.ninth.com/@demo.test/post/")
    (post,) = api.get("/v1/posts", params={"platform": "ninth"}).json()["data"]
    assert post["id"] == batch["results"][0]["postId"]


def test_its_rules_are_checked_and_listed(api: httpx.Client) -> None:
    body = {"targets": [{"platform": "ninth"}], "text": "x" * 501}
    assert api.post("/v1/posts", json=body).json()["error"]["rule"] == "ninth.text.max_graphemes"
    (checked,) = api.post("/v1/posts/validate", json=body).json()["results"]
    assert [error["rule"] for error in checked["errors"]] == ["ninth.text.max_graphemes"]
    assert "ninth.text.max_graphemes" in {rule["rule"] for rule in api.get("/v1/rules").json()["data"]}


def test_the_api_its_description_and_the_pages_know_it(api: httpx.Client) -> None:
    (row,) = [row for row in api.get("/v1/platforms").json()["data"] if row["platform"] == "ninth"]
    assert (row["label"], row["text"]) == ("Ninth", {"limit": 500, "unit": "characters"})
    schemas = api.get("/openapi.json").json()["components"]["schemas"]
    assert "ninth" in schemas["Platform"]["enum"]
    assert "replyToId" in schemas["NinthOptions"]["properties"]
    for path, words in (
        ("/docs", "Ninth"),
        ("/docs/settings", "platforms.ninth"),
        ("/docs/reference", "NinthOptions"),
        ("/docs/rules/ninth.text.max_graphemes", "A Ninth post can have at most 500 characters"),
    ):
        assert words in api.get(path).text


@pytest.mark.slow
def test_an_owner_connects_an_account_of_it_in_the_browser(demo: dict[str, Any]) -> None:
    with httpx.Client(base_url=demo["url"], trust_env=False, follow_redirects=True, timeout=60) as browser:
        form = {"csrf_token": hide_directives(browser.get("/login").text, "csrf_token"), "next": "/connect/ninth"}
        page = browser.post("/login", data=form | demo["login"], headers={"Origin": demo["url"]}).text
        link = re.search(r'id="go" href="([^"]+)"', page)
        assert link is not None, page
        asked = html.unescape(link[1])
        assert "Allow access?" in browser.get(asked).text
        ticked = parse_qs(urlsplit(asked).query)["scope"][0].split(",")
        agreed = browser.post(asked, data={"decision": "allow", "ticked": ticked})
        assert agreed.status_code == 200, agreed.text
        assert "Ninth" in agreed.text
        assert agreed.url.path == "/connect/ninth/done"


@pytest.mark.slow
def test_an_endpoint_answers_and_is_in_the_pages_about_the_api(demo: dict[str, Any]) -> None:
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


@pytest.mark.slow
def test_their_own_tests_pass(copy: Path) -> None:
    run_tests(copy, "tests/unit/platforms/ninth", "tests/api/identity/test_revoke_all.py")


TABLES = (
    ("ninth", "tests/unit/platforms tests/unit/simulator tests/unit/domain tests/project/test_source.py", 150),
    ("rules_catalogue or options or settings", "tests/unit/platforms/contract tests/unit/base/test_settings.py", 200),
    ("", "tests/api/openapi/test_document.py tests/api/docs/test_docs_pages.py tests/project/test_source.py", 300),
    ("table or roles or another_way or v1", "tests/isolation/test_lost_authority.py", 4),
    ("", "tests/project/test_action_owners.py", 20),
    (
        "demo or simulator or target or options",
        "tests/commands/test_processes.py tests/api/http/test_schema_errors.py",
        20,
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "paths", "least"), TABLES)
def test_the_tests_of_every_platform_pass_with_nine(copy: Path, chosen: str, paths: str, least: int) -> None:
    said = run_tests(copy, "-m", "matrix or not slow", "-k", chosen, *paths.split())
    counted = re.search(r"(\d+) passed", said)
    assert counted is not None, said
    assert int(counted[1]) >= least


@pytest.mark.slow
def test_the_linters_have_nothing_to_say(copy: Path) -> None:
    run_module(copy, "ruff", "check", ".")
    run_module(copy, "ruff", "format", "--check", ".")
    run_module(copy, "mypy", "--cache-dir", str(copy / ".mypy_cache"))
    run_command([Path(sys.executable).with_name("lint-imports"), "--no-cache"], copy)
