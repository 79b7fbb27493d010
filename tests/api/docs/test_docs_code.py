"""Code blocks of the documentation, executed with a real key and account."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from socialpub import platforms
from socialpub.platforms.contract import Board
from socialpub.web.api.keys import KEY
from socialpub.web.api.notifications import CHANNEL
from socialpub.web.api.webhooks import DELIVERY_ROW, ENDPOINT
from socialpub.web.docs import pages as docs
from socialpub.web.docs import reference
from socialpub.web.openapi import examples
from tests.support.app_server import ApiClient
from tests.support.openapi_judge import lose_post, reject_post, sign_in
from tests.support.parsed_pages import BROWSER, read_code_blocks
from tests.support.ports import free_port
from tests.support.post_drafts import new_draft, tag_of
from tests.support.request_cast import RequestCast, make_picture
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import register_endpoint
from tests.support.webhook_receiver import WebhookReceiver

PASSWORD = "abcd-efgh-ijkl-mnop"


@pytest.fixture
def shell(world: RequestCast, tmp_path: Path) -> Shell:
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: the shell lines of the documentation are not executed")
    return Shell(world, tmp_path)


class Shell:
    """Executes shell lines in one folder, as a person with a key and a signed-in browser does."""

    def __init__(self, world: RequestCast, home: Path) -> None:
        self.home = home
        self.session = sign_in(world.server, world.alice)
        self.environment = {
            "PATH": os.environ["PATH"],
            "SOCIALPUB_KEY": str(world.alice.key),
            "SOCIALPUB_COOKIE": self.session["Cookie"],
            "SOCIALPUB_CSRF": self.session["X-CSRF-Token"],
        }

    def run(self, script: str, **more: str) -> list[Any]:
        """The JSON values that a script prints; it must end with 0."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.home,
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return values(done.stdout)


def values(text: str) -> list[Any]:
    """The JSON values that stand one after another in a text."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


# --- Start here --------------------------------------------------------------------------------------------------


def filled_in(world: RequestCast, script: str) -> str:
    """A script with the reader's key and account where the page asks for them."""
    script = script.replace("paste your key here", str(world.alice.key))
    return script.replace("paste the id of an account here", world.alice.bluesky)


@pytest.fixture
def start(world: RequestCast) -> dict[str, str]:
    """The code of the page by file name, read from the page itself."""
    shown = read_code_blocks(world.server.api().get("/docs/start", headers=BROWSER).text)
    assert len(shown) == len(docs.START_FILES)
    by_file = docs.build_start_code(world.server.service.base_url)
    code = {name: next(block for block in shown if block == text.strip("\n")) for name, text in by_file.items()}
    return {name: filled_in(world, text) for name, text in code.items()}


def test_the_shell_lines_of_start_here_publish_and_schedule(
    world: RequestCast, shell: Shell, start: dict[str, str]
) -> None:
    files = ("environment.sh", "accounts.sh", "account.sh", "check.sh", "publish.sh", "schedule.sh")
    accounts, checked, published, scheduled = shell.run("\n".join(start[name] for name in files))
    assert world.alice.bluesky in [account["id"] for account in accounts["data"]]
    assert checked["valid"]
    assert published["results"][0]["status"] == "published"
    assert scheduled["results"][0]["status"] == "queued"
    assert [entry.text for entry in world.server.lab.lab.ledger.posts()] == ["Hello from socialpub"]


def test_the_program_that_polls_ends_with_its_post(world: RequestCast, tmp_path: Path, start: dict[str, str]) -> None:
    post = world.published()
    (tmp_path / "events.py").write_text(start["events.py"])
    environment = {"SOCIALPUB_URL": world.server.url, "SOCIALPUB_KEY": str(world.alice.key)}
    done = subprocess.run(
        [sys.executable, "events.py", post], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert f'"id": "{post}"' in done.stdout.splitlines()[-1]
    assert "post.published" in done.stdout.splitlines()[-1]


def test_the_receiver_takes_what_the_server_signs_and_nothing_else(
    world: RequestCast, shell: Shell, tmp_path: Path, start: dict[str, str]
) -> None:
    port = free_port()
    script = start["endpoint.sh"].replace(
        "https://example.com/the/address/of/your/receiver", f"http://127.0.0.1:{port}"
    )
    (made,) = shell.run("\n".join((start["environment.sh"], script)))
    (tmp_path / "receiver.py").write_text(start["receiver.py"])
    with receiving(tmp_path, port, made["signingSecret"]) as lines:
        post = world.published()
        line = next(lines)
        assert line.startswith("post.published ")
        assert json.loads(line.partition(" ")[2])["id"] == post
        forged = subprocess.run(
            ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{port}", "-d", "{}"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert forged.stdout == "401"


@contextlib.contextmanager
def receiving(home: Path, port: int, secret: str) -> Iterator[Iterator[str]]:
    """The lines that receiver.py prints, once it listens."""
    program = subprocess.Popen(
        [sys.executable, "receiver.py"],
        cwd=home,
        env={"SOCIALPUB_WEBHOOK_SECRET": secret, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    watchdog = threading.Timer(60, program.kill)
    watchdog.start()
    try:
        assert program.stdout is not None
        until_open(port)
        yield iter(program.stdout.readline, "")
    finally:
        watchdog.cancel()
        program.kill()
        program.wait()
        program.stdout.close()


def until_open(port: int) -> None:
    """Return once something listens on a port of this machine, after at most 30 s."""

    def is_open() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    assert wait_for(is_open, 30)


def test_the_first_example_of_the_index_works_as_it_stands(world: RequestCast, shell: Shell) -> None:
    environment, publish = read_code_blocks(world.server.api().get("/docs", headers=BROWSER).text)
    (published,) = shell.run("\n".join((filled_in(world, environment), publish)))
    assert published["results"][0]["status"] == "published"


# --- The reference -----------------------------------------------------------------------------------------------


REFUSED = {
    "back from the platform": "needs a person's consent at the platform",
    "a choice": "needs a person's consent at the platform",
    "e-mail": "the server of this test has no mail server",
}
"""Example requests of the reference, by title, that no test can have succeed: the server refuses them with 4xx."""


class Examples:
    """Real ids in place of those of the examples, a resource of its own for each command line."""

    def __init__(self, world: RequestCast, sink: WebhookReceiver, session: dict[str, str]) -> None:
        self.world, self.sink, self.api = world, sink, world.alice.api
        self.browser = world.server.api(**session)
        self.draft = ""  # the latest that was made

    def real(self, operation: str, line: str) -> str:
        """A command line with the address of the test's server, ids that exist, and times that are to come."""
        line = line.replace(self.world.server.service.base_url, self.world.server.url)
        # A target by platform is the organization's only account there; Alice's has two.
        line = line.replace(
            '"platform": "bluesky"\n    }\n  ]', f'"accountId": "{self.world.alice.bluesky}"\n    }}\n  ]'
        )
        if operation == "readSlots":  # of one of two profiles
            line = line.replace("/v1/slots", f"/v1/slots?profileId={self.world.alice.profile}")
        for example, make in self._made(operation).items():
            if example in line:
                line = line.replace(example, make())
        return re.sub(r"If-Match: \"\w+\"", lambda _: f"If-Match: {tag_of(self.api, self.draft)}", line)

    def _made(self, operation: str) -> dict[str, Callable[[], str]]:
        """What makes the resource behind each id of an example."""
        world, server = self.world, self.world.server
        posts = {
            "readPost": world.published,
            "retryPost": lambda: reject_post(server, world.alice),
            "settlePost": lambda: lose_post(server, world.alice),
        }
        accounts = {
            "disconnectAccount": lambda: str(server.connect_bluesky(world.alice, "leaving")["id"]),
            "listBoards": lambda: str(server.connect(world.alice, "pinterest", "boards")["id"]),
            "chooseBoard": lambda: str(server.connect(world.alice, "pinterest", "board")["id"]),
        }
        return {
            examples.POST_ID: posts.get(operation, world.scheduled),
            examples.BATCH_ID: lambda: str(self.api.get(f"/v1/posts/{world.scheduled()}").json()["batchId"]),
            examples.ACCOUNT_ID: accounts.get(operation, lambda: world.alice.bluesky),
            examples.OTHER_ACCOUNT_ID: lambda: str(server.connect_bluesky(world.alice, "second")["id"]),
            examples.PROFILE_ID: self._profile if operation == "deleteProfile" else lambda: world.alice.profile,
            examples.MEDIA_ID: self._media,
            examples.DRAFT_ID: lambda: self._draft(linked=operation == "revokeApprovalLink"),
            KEY["id"]: lambda: self._id(self.browser, "/v1/api-keys", {"name": "Soon revoked"}),
            ENDPOINT["id"]: lambda: str(register_endpoint(world.alice, self.sink.url)["id"]),
            DELIVERY_ROW["id"]: self._delivery,
            CHANNEL["id"]: lambda: self._id(
                self.api, "/v1/notification-channels", {"to": {"kind": "slack", "url": self.sink.url}}
            ),
        }

    def _id(self, api: ApiClient, path: str, body: dict[str, Any]) -> str:
        answer = api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def _draft(self, *, linked: bool) -> str:
        self.draft = str(new_draft(self.api, targets=[{"accountId": self.world.alice.bluesky}], text="Hours")["id"])
        if linked:
            assert self.api.post(f"/v1/drafts/{self.draft}/link").status_code == 200
        return self.draft

    def _profile(self) -> str:
        return self._id(self.browser, "/v1/profiles", {"name": "Empty"})

    def _media(self) -> str:
        answer = self.api.post("/v1/media", files={"file": ("a.png", make_picture(), "image/png")})
        return str(answer.json()["id"])

    def _delivery(self) -> str:
        register_endpoint(self.world.alice, self.sink.url)
        self.world.published()
        self.sink.wait(1)
        return str(self.api.get("/v1/webhook-deliveries").json()["data"][0]["id"])


@pytest.mark.slow
def test_every_command_line_of_the_reference_is_executed(
    world: RequestCast, shell: Shell, sink: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = (Board("549755885175", "Bread", "PUBLIC"),)
    monkeypatch.setitem(platforms.CONNECTORS, "pinterest", SimpleNamespace(boards=lambda up: boards))
    made = world.server.lab.lab.add_account("bluesky", handle="bakery.example.org")
    (shell.home / "door.jpg").write_bytes(make_picture("JPEG"))
    slots = {"profileId": world.alice.profile, "zone": "UTC", "weekly": [{"day": "mon", "time": "09:30"}]}
    assert world.alice.api.put("/v1/slots", json=slots).status_code == 200
    wrong = []
    document, ids = world.server.api().get("/openapi.json").json(), Examples(world, sink, shell.session)
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            for request in reference.build_operation_view(document, method.upper(), path, entry)["requests"]:
                line = ids.real(entry["operationId"], request["curl"]).replace(PASSWORD, made["appPassword"])
                script = line.replace("curl -sS ", "curl -sS -w '%{http_code}' ")
                *answers, status = shell.run(script, PLATFORM="bluesky")
                expected = range(400, 500) if request["title"] in REFUSED else range(200, 300)
                if status not in expected:
                    wrong.append((status, line, answers))
    assert wrong == []
