"""Verifier examples of /docs/events, each run by its own interpreter."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from socialpub.web.docs.reference import VERIFIERS
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import ENDPOINTS, register_endpoint
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver

ROOT = Path(__file__).parents[3] / "templates" / "docs" / "verifiers"
SIGNATURE, PREVIOUS = "x-service-signature", "x-service-signature-previous"


@dataclass(frozen=True)
class Language:
    """What runs a verifier: the program, the file's name, what is added to its text, and the command line.

    `build`: arguments with which the program first compiles what `arguments` run.

    The program reads the body from `body`, secret and signatures from its environment, and ends with 0 for a genuine
    delivery and with 1 for any other.
    """

    program: str
    file: str
    driver: str
    arguments: tuple[str, ...]
    more: Mapping[str, str]
    build: tuple[str, ...] = ()


LANGUAGES = {
    "Python": Language(
        "python3",
        "receiver.py",
        """
import os, sys
headers = {"x-service-signature": os.environ["SIGNATURE"]}
if os.environ["PREVIOUS"]:
    headers["x-service-signature-previous"] = os.environ["PREVIOUS"]
sys.exit(0 if is_genuine(open("body", "rb").read(), headers, os.environ["SECRET"]) else 1)
""",
        ("receiver.py",),
        {},
    ),
    "TypeScript": Language(
        "node",
        "receiver.mjs",
        """
import { readFileSync } from "node:fs";
const headers = { "x-service-signature": process.env.SIGNATURE };
if (process.env.PREVIOUS) headers["x-service-signature-previous"] = process.env.PREVIOUS;
process.exit(isGenuine(readFileSync("body"), headers, process.env.SECRET) ? 0 : 1);
""",
        ("receiver.mjs",),
        {},
    ),
    "Go": Language(
        "go",
        "receiver.go",
        "",
        (),
        {
            "main.go": """package main

import (
	"net/http"
	"os"
)

func main() {
	body, err := os.ReadFile("body")
	if err != nil {
		panic(err)
	}
	headers := http.Header{}
	headers.Set("X-Service-Signature", os.Getenv("SIGNATURE"))
	if previous := os.Getenv("PREVIOUS"); previous != "" {
		headers.Set("X-Service-Signature-Previous", previous)
	}
	if !isGenuine(body, headers, os.Getenv("SECRET")) {
		os.Exit(1)
	}
}
"""
        },
        ("build", "-o", "receiver", "receiver.go", "main.go"),
    ),
    "PHP": Language(
        "php",
        "receiver.php",
        """
$server = ["HTTP_X_SERVICE_SIGNATURE" => getenv("SIGNATURE")];
if (getenv("PREVIOUS") !== "") {
    $server["HTTP_X_SERVICE_SIGNATURE_PREVIOUS"] = getenv("PREVIOUS");
}
exit(is_genuine(file_get_contents("body"), $server, getenv("SECRET")) ? 0 : 1);
""",
        ("receiver.php",),
        {},
    ),
    "Shell": Language(
        "sh", "receiver.sh", '\nis_genuine body "$SECRET" "$SIGNATURE" $PREVIOUS\n', ("receiver.sh",), {}
    ),
}

Check = Callable[[ReceivedCall, str], bool]


@pytest.fixture
def checks(tmp_path: Path) -> Callable[[str], Check]:
    """What the verifier of a language says; skipped where the machine has nothing that runs it."""

    def of(name: str) -> Check:
        language = LANGUAGES[name]
        program = shutil.which(language.program)
        if program is None:
            pytest.skip(f"{language.program} is not installed")
        folder = tmp_path / "receiver"
        folder.mkdir()
        (folder / language.file).write_text((ROOT / VERIFIERS[name]).read_text() + language.driver)
        for file, text in language.more.items():
            (folder / file).write_text(text)
        environment = os.environ | {"GOFLAGS": "", "GO111MODULE": "off"}
        command = [program, *language.arguments]
        if language.build:
            subprocess.run([program, *language.build], cwd=folder, env=environment, timeout=120, check=True)
            command = [str(folder / "receiver")]

        def check(got: ReceivedCall, secret: str) -> bool:
            (folder / "body").write_bytes(got.body)
            said = {"SECRET": secret, "SIGNATURE": got.headers[SIGNATURE], "PREVIOUS": got.headers.get(PREVIOUS, "")}
            ended = subprocess.run(
                command, cwd=folder, env=environment | said, capture_output=True, timeout=120, check=False
            )
            assert (ended.returncode in (0, 1), ended.stderr) == (True, b"")
            return ended.returncode == 0

        return check

    return of


def test_each_language_of_the_page_is_run_here(world: RequestCast) -> None:
    assert list(LANGUAGES) == list(VERIFIERS)
    assert {path.name for path in ROOT.iterdir()} == set(VERIFIERS.values())
    shown = html.unescape(world.server.api().get("/docs/events").text)
    for file in VERIFIERS.values():
        assert (ROOT / file).read_text().strip() in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGES)
def test_it_takes_what_is_genuine_and_nothing_else(
    world: RequestCast, sink: WebhookReceiver, checks: Callable[[str], Check], name: str
) -> None:
    check = checks(name)
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    old = endpoint["signingSecret"]
    world.published(text="naïve 🎉 \u2028 'quoted' \"twice\" $HOME `x`")
    plain = sink.wait(1)[0]
    new = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/rotate-secret").json()["signingSecret"]
    world.published()
    both = sink.wait(2)[1]
    assert check(plain, old)
    assert check(both, new)
    assert check(both, old)
    assert not check(plain, new)
    assert not check(ReceivedCall(plain.path, plain.headers, plain.body + b" "), old)
    assert not check(ReceivedCall(plain.path, {SIGNATURE: ""}, plain.body), old)
    assert not check(ReceivedCall(plain.path, {SIGNATURE: plain.headers[SIGNATURE][:-1]}, plain.body), old)
