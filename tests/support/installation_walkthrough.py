"""Installation check: the commands of docs/running.md up to a first published post.

The platform is the bundled simulator, run from the same installation.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_port

Command = Callable[..., list[str]]
"""How a command of this installation is run, by its words."""
TEXT = "From nothing to here"


def settings_text(bluesky: str, port: int) -> str:
    return (
        f"[server]\nport = {port}\n[security]\nallow_private_networks = true\n[platforms.bluesky]\n"
        f'api_base = "{bluesky}"\n'
    )


@contextlib.contextmanager
def running_simulator(command: Command, **where: Any) -> Iterator[Mapping[str, Any]]:
    """The addresses of a simulator that runs."""
    with running_process(
        command("simulator", "--port", "0", "--json"), stdout=subprocess.PIPE, text=True, **where
    ) as started:
        assert started.stdout
        yield json.loads(started.stdout.readline())


@contextlib.contextmanager
def running_process(words: list[str], **where: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that is stopped at the end, as systemd stops it."""
    started = subprocess.Popen(words, **where)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(60)
        if started.stdout:
            started.stdout.close()


def wait_for(url: str, started: subprocess.Popen[Any]) -> None:
    """Until it answers, or has ended."""
    while started.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"{url}/healthz", trust_env=False)
            return
    said = started.stderr.read() if started.stderr else ""
    raise AssertionError(f"it ended with {started.returncode}: {said}")


def check_publishing(url: str, platforms: Mapping[str, Any], beside: Command, **where: Any) -> None:
    """On a fresh server: an organization, a key and an account by commands beside it, and a post by the API."""

    def told(*words: str, stdin: str = "") -> Any:
        ended = subprocess.run(
            beside(*words, "--json"), input=stdin, capture_output=True, text=True, timeout=120, check=False, **where
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    alice = httpx.post(
        f"{platforms['url']}/lab/accounts", json={"platform": "bluesky", "handle": "alice.test"}, trust_env=False
    ).json()
    told("org", "create", "Mine")
    profile = told("profile", "list")[0]["id"]
    key = told("key", "create")["key"]
    told("account", "connect", "bluesky", "--profile", profile, "--handle", "alice.test", stdin=alice["appPassword"])
    answer = httpx.post(
        f"{url}/v1/posts",
        headers={"Authorization": f"Bearer {key}"},
        json={"text": TEXT, "targets": [{"platform": "bluesky"}]},
        trust_env=False,
        timeout=60,
    )
    assert (answer.status_code, answer.json()["status"]) == (200, "published"), answer.text
    ledger = httpx.get(f"{platforms['url']}/lab/ledger", trust_env=False).json()
    assert [entry["text"] for entry in ledger if entry["kind"] == "post"] == [TEXT]


def check_installation(command: Command, folder: Path, environment: Mapping[str, str]) -> None:
    """The whole of it, in one folder: simulator, settings, server, commands, post."""
    where = {"cwd": folder, "env": dict(environment)}
    port = free_port()
    with running_simulator(command, **where) as platforms:
        (folder / "socialpub.toml").write_text(settings_text(platforms["platforms"]["bluesky"], port))
        (folder / "socialpub.toml").chmod(0o600)
        with running_process(command("serve"), stderr=subprocess.DEVNULL, **where) as server:
            wait_for(f"http://127.0.0.1:{port}", server)
            check_publishing(f"http://127.0.0.1:{port}", platforms, command, **where)
        assert server.returncode == 0
