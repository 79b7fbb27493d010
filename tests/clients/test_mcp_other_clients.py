"""The MCP server with clients of others: the TypeScript SDK's, and the inspector.

The packages come from npm, in the versions of `other_mcp_clients/package-lock.json`, into a temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from socialpub_client.mcp_server.tool_table import TOOLS
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.foreign_tools import install_from_npm
from tests.support.mcp_clients import http_server, stdio
from tests.support.request_cast import make_picture

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "other_mcp_clients"
NAMES = [tool.name for tool in TOOLS]
SECONDS = 300
Scenario = list[tuple[str, dict[str, Any]]]


def run(command: Sequence[str | Path], folder: Path, exits: Sequence[int] = (0,), **environment: str) -> str:
    """The standard output of a command that must end with one of these codes."""
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode in exits, f"{command}:\n{(ended.stdout + ended.stderr)[-6000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def node_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the clients in `node_modules`."""
    folder = install_from_npm(HERE, tmp_path_factory.mktemp("node"))
    shutil.copy(HERE / "calls.mjs", folder)
    return folder


@pytest.fixture
def scenario(server: AppServer, alice: Person) -> Scenario:
    """Calls of every tool that work one after another; the last is refused."""
    later = format_instant(server.clock.now_ms() + 86_400_000)
    own = [alice.bluesky]
    return [
        ("list_accounts", {}),
        ("explain", {"name": "bluesky.text.max_graphemes"}),
        ("upload_media", {"path": "door.png", "alt": "A door"}),
        ("check_post", {"to": own, "text": "Now"}),
        ("publish_post", {"plan": "$plan"}),
        ("list_posts", {"limit": 5}),
        ("list_events", {"limit": 5}),
        ("check_post", {"to": own, "text": "Later", "at": later}),
        ("publish_post", {"plan": "$plan"}),
        ("read_post", {"id": "$post"}),
        ("change_post", {"id": "$post", "version": "$version", "text": "Later, changed"}),
        ("cancel_post", {"id": "$post"}),
        ("retry_post", {"id": "$post"}),
    ]


@pytest.fixture
def media(tmp_path: Path) -> Path:
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "door.png").write_bytes(make_picture())
    return folder


def check(server: AppServer, alice: Person, calls: list[tuple[str, bool, dict[str, Any]]], transport: str) -> None:
    """What was answered agrees with the post log and with the simulator's ledger."""
    refused = ["retry_post"] if transport == "stdio" else ["upload_media", "retry_post"]  # no files of its machine
    assert [name for name, is_error, _ in calls if is_error] == refused
    assert [answer["outcome"] for name, _, answer in calls if name == "publish_post"] == [
        "published",
        "1 accepted, not yet published: read_post tells when",
    ]
    assert calls[-1][2]["error"]["remediation"]
    posts = {post["text"]: post["status"] for post in alice.api.get("/v1/posts").json()["data"]}
    assert posts == {"Now": "published", "Later, changed": "canceled"}
    assert [entry.text for entry in server.lab.lab.ledger.posts()] == ["Now"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_client_of_the_typescript_sdk_calls_every_tool(
    node_tools: Path, server: AppServer, alice: Person, scenario: Scenario, media: Path, revision: str, transport: str
) -> None:
    if transport == "stdio":
        program = stdio(server.url, alice.key, "--media-root", str(media))
        how = {"COMMAND": json.dumps([program.command, *program.args]), "SERVER_ENVIRONMENT": json.dumps(program.env)}
        printed = run(["node", "calls.mjs"], node_tools, REVISION=revision, SCENARIO=json.dumps(scenario), **how)
    else:
        with http_server(server.url) as address:
            how = {"ADDRESS": address, "KEY": alice.key}
            printed = run(["node", "calls.mjs"], node_tools, REVISION=revision, SCENARIO=json.dumps(scenario), **how)
    names, *calls = [json.loads(line) for line in printed.splitlines()]
    assert names == NAMES
    check(server, alice, calls, transport)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_calls_every_tool(
    node_tools: Path, server: AppServer, alice: Person, scenario: Scenario, media: Path, transport: str
) -> None:
    inspector = [node_tools / "node_modules" / ".bin" / "mcp-inspector", "--cli"]
    if transport == "stdio":
        program = stdio(server.url, alice.key, "--no-ask", "--media-root", str(media))
        settings = node_tools / "servers.json"
        entry = {"command": program.command, "args": program.args, "env": program.env}
        settings.write_text(json.dumps({"mcpServers": {"socialpub": entry}}))
        inspect(
            node_tools, [*inspector, "--config", settings, "--server", "socialpub"], server, alice, scenario, transport
        )
    else:
        with http_server(server.url, "--no-ask") as address:
            header = ["--transport", "http", "--header", f"Authorization: Bearer {alice.key}"]
            inspect(node_tools, [*inspector, address, *header], server, alice, scenario, transport)


def inspect(
    folder: Path, begin: list[str | Path], server: AppServer, alice: Person, scenario: Scenario, transport: str
) -> None:
    listed = json.loads(run([*begin, "--method", "tools/list", "--strict"], folder))
    assert [tool["name"] for tool in listed["tools"]] == NAMES
    known, calls = dict[str, str](), list[Any]()
    for name, arguments in scenario:
        filled = {key: known.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()}
        pairs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in filled.items()]
        words = ["--method", "tools/call", "--tool-name", name, *(["--tool-arg", *pairs] if pairs else [])]
        result = json.loads(run([*begin, *words], folder, exits=(0, 5)))  # 5: the tool refused
        answer = result["structuredContent"]
        known |= {f"${key}": answer[key] for key in ("plan", "version") if key in answer}
        if name == "publish_post":
            known["$post"] = answer["targets"][0]["post"]
        calls.append((name, result.get("isError", False), answer))
    check(server, alice, calls, transport)
