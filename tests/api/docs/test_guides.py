"""Code of /docs/guides in every language: run as it stands, held to the ledger."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.web.docs.guides import GUIDES, LANGUAGES, read_code
from tests.support.parsed_pages import BROWSER
from tests.support.ports import free_port
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import register_endpoint
from tests.support.webhook_receiver import WebhookReceiver

PACKAGES = Path(__file__).parent / "guide_packages"
SECONDS = 120
PARAMETERS = [
    pytest.param(language, marks=pytest.mark.slow if language == "TypeScript" else ()) for language in LANGUAGES
]
in_every_language = pytest.mark.parametrize("language", PARAMETERS)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what programs in TypeScript need, from npm."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("packages")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGES / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


class Reader:
    """Somebody who copies the code of guides into files of one folder, and runs it with a key of theirs."""

    def __init__(self, world: RequestCast, language: str, folder: Path) -> None:
        self.world, self.language, self.folder = world, language, folder
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SOCIALPUB_URL": world.server.url,
            "SOCIALPUB_KEY": world.alice.key,
            "SOCIALPUB_ACCOUNT": world.alice.bluesky,
            "SOCIALPUB_LAB": world.server.lab.url,
        }

    def prepare(self, guide: str) -> list[str]:
        """The command that runs a guide's code, which is what the page shows."""
        code = read_code(guide)[self.language]
        page = self.world.server.api().get(f"/docs/guides/{guide}", headers=BROWSER).text
        assert code.strip("\n") in [
            html.unescape(block).strip("\n") for block in re.findall(r"<code>(.*?)</code>", page, re.S)
        ]
        file = self.folder / f"{guide}.{LANGUAGES[self.language]}"
        file.write_text(code)
        if self.language == "TypeScript":
            binaries = self.folder / "node_modules" / ".bin"
            if not (self.folder / "api.d.ts").exists():
                self._succeed(
                    [str(binaries / "openapi-typescript"), f"{self.world.server.url}/openapi.json", "-o", "api.d.ts"]
                )
            strict = ["--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext"]
            self._succeed([str(binaries / "tsc"), *strict, file.name])
            return ["node", f"{guide}.mjs"]
        return [sys.executable, file.name] if self.language == "Python" else ["bash", "-euo", "pipefail", file.name]

    def run(self, guide: str, **more: str) -> str:
        """What a guide's code prints."""
        return self._succeed(self.prepare(guide), more)

    def _succeed(self, command: list[str], more: Mapping[str, str] | None = None) -> str:
        environment = self.environment | (more or {})
        ended = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def texts(self) -> list[str]:
        return [entry.text for entry in self.world.server.lab.lab.ledger.posts()]


@pytest.fixture
def reader(world: RequestCast, language: str, tmp_path: Path, request: pytest.FixtureRequest) -> Reader:
    folder = request.getfixturevalue("packages") if language == "TypeScript" else tmp_path
    return Reader(world, language, folder)


@pytest.mark.slow
@in_every_language
def test_retries_publish_once(reader: Reader) -> None:
    first, second = (reader.run("retries") for _ in range(2))
    assert "published" in first
    assert "published" in second
    assert reader.texts() == ["We open on Monday."]


@pytest.mark.slow
@pytest.mark.parametrize("language", PARAMETERS[1:])  # the files of the other languages are applied by shell too
def test_the_calendar_is_applied_and_its_posts_are_found(reader: Reader) -> None:
    applied = Reader(reader.world, "Shell", reader.folder).run("calendar-in-git")
    signs = [line[0] for line in applied.splitlines() if not line.startswith(" ")]
    assert signs == ["+", "+"] * 3 + ["=", "="]  # checked, planned, applied, applied again
    posts = reader.world.alice.api.get("/v1/posts?externalIdPrefix=spring/").json()["data"]
    times = {post["externalId"]: post["scheduledAt"][:19] for post in posts}
    assert times == {"spring/opening": "2099-03-30T07:00:00", "spring/bread": "2099-03-31T05:30:00"}
    found = [tuple(line.split()[:3]) for line in reader.run("calendar-in-git").splitlines()]
    assert sorted(found) == [(f"spring/{name}", "bluesky", "queued") for name in ("bread", "opening")]


@in_every_language
def test_the_assistant_plans_and_the_person_publishes(reader: Reader) -> None:
    planning = reader.world.server.limited(reader.world.alice, scopes=["posts:plan", "accounts:read"])
    printed = reader.run("assistant", SOCIALPUB_PLANNING_KEY=planning.key)
    assert "published" in printed
    assert reader.language == "Shell" or "assistant: api_key.scope" in printed
    assert reader.texts() == ["Written by an assistant, published by a person."]


def test_the_endpoint_of_the_webhooks_guide_is_registered(
    world: RequestCast, sink: WebhookReceiver, tmp_path: Path
) -> None:
    printed = json.loads(Reader(world, "Shell", tmp_path).run("webhooks", SOCIALPUB_RECEIVER=sink.url))
    assert printed["url"] == sink.url
    assert printed["signingSecret"].startswith("whsec_")


@pytest.mark.parametrize("language", PARAMETERS[1:])
def test_the_receiver_of_the_webhooks_guide_believes_what_is_signed(reader: Reader) -> None:
    port = free_port()
    secret = register_endpoint(reader.world.alice, f"http://127.0.0.1:{port}/")["signingSecret"]
    with receiving(reader, {"SOCIALPUB_WEBHOOK_SECRET": secret, "PORT": str(port)}) as lines:
        forged = {"webhook-id": "evt_1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
        address = f"http://127.0.0.1:{port}/"
        assert httpx.post(address, content=b"{}", headers=forged, trust_env=False).status_code == 401
        post = reader.world.published()
        wanted = f"post.published {post}"
        assert wanted in (line.strip() for line in lines)  # the watchdog ends the lines, should it not come


@contextlib.contextmanager
def receiving(reader: Reader, more: Mapping[str, str]) -> Iterator[Iterator[str]]:
    """The lines that the receiver prints, once it listens."""
    command = ["timeout", str(SECONDS), *reader.prepare("webhooks")]
    process = subprocess.Popen(
        command, cwd=reader.folder, env=reader.environment | more, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:

            def listens() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    httpx.get(f"http://127.0.0.1:{more['PORT']}/", trust_env=False, timeout=1)
                    return True
                return False

            assert wait_for(listens, 30)
            assert process.stdout is not None
            yield iter(process.stdout.readline, "")
        finally:
            process.terminate()


@pytest.mark.slow
@in_every_language
def test_moving_twice_brings_the_queue_once(reader: Reader) -> None:
    rows = [
        {"id": "101", "at": "2099-03-29T09:00:00+02:00", "text": "We open on Monday."},
        {"id": "102", "at": "2099-03-30T09:00:00+02:00", "text": "Fresh bread, every day."},
    ]
    past = {"id": "100", "at": "2020-03-28T09:00:00+02:00", "text": "Yesterday's news."}  # refused, and the others come
    rows = [past, *rows]
    lines = [f'{row["id"]},{row["at"]},"{row["text"]}"' for row in rows]
    (reader.folder / "queue.csv").write_text("\n".join(["id,at,text", *lines]) + "\n")
    (reader.folder / "queue.json").write_text(json.dumps(rows))
    for _ in range(2):
        assert reader.run("moving").count("queued") >= 2
    posts: list[dict[str, Any]] = reader.world.alice.api.get("/v1/posts?externalIdPrefix=old/").json()["data"]
    assert {(post["externalId"], post["text"], post["status"]) for post in posts} == {
        (f"old/{row['id']}", row["text"], "queued") for row in rows[1:]
    }
    assert len(posts) == 2


@in_every_language
def test_the_sandbox_tells_what_is_really_there(reader: Reader) -> None:
    printed = reader.run("sandbox")
    assert "rejected" in printed
    assert reader.texts() == []
    assert printed.count("Is anybody there?") == 0
    assert printed.rstrip().endswith("[]")


def test_every_guide_is_tested() -> None:
    assert list(GUIDES) == ["retries", "calendar-in-git", "assistant", "webhooks", "moving", "sandbox"]
