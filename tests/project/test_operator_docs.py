"""Proxies, systemd unit, commands and file names of docs/running.md."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "running"
LONGEST_WAIT = 55  # of publishing.immediate_wait
pytestmark = pytest.mark.slow


# --- Proxies -------------------------------------------------------------------------------------------------------


def nginx(folder: Path, at: int, upstream: int) -> list[str | Path]:
    text = (DOCS / "nginx.conf").read_text()
    text = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{at};", text)
    text = re.sub(r" *ssl_certificate.*\n", "", text).replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy"))
    around = f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {paths}\n{text}}}"
    (folder / "nginx.conf").write_text(around)
    return ["nginx", "-c", folder / "nginx.conf"]


def caddy(folder: Path, at: int, upstream: int) -> list[str | Path]:
    text = (DOCS / "Caddyfile").read_text().replace("social.example.com {", f"http://127.0.0.1:{at} {{")
    (folder / "Caddyfile").write_text(
        "{\n\tadmin off\n\tauto_https off\n}\n" + text.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    )
    return ["caddy", "run", "--config", folder / "Caddyfile"]


@contextlib.contextmanager
def running(command: list[str | Path], url: str, folder: Path) -> Iterator[None]:
    environment = {"PATH": os.environ["PATH"] + ":/usr/sbin", "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE) as started:
        try:
            while not _answers(url):
                assert started.poll() is None, started.stderr.read() if started.stderr else ""
                time.sleep(0.05)
            yield
        finally:
            started.terminate()
            started.communicate(timeout=30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_proxy_lets_through_what_socialpub_needs(
    tmp_path: Path, proxy: Callable[[Path, int, int], list[str | Path]]
) -> None:
    if shutil.which(proxy.__name__, path=os.environ["PATH"] + ":/usr/sbin") is None:
        pytest.skip(f"{proxy.__name__} is not installed")
    inside, outside = free_port(), free_port()
    url, socialpub = f"http://127.0.0.1:{outside}", [sys.executable, "-m", "socialpub"]
    (tmp_path / "socialpub.toml").write_text(f'[server]\nport = {inside}\nbase_url = "{url}"\n')
    made = [
        json.loads(_run([*socialpub, *words, "--json"], tmp_path))
        for words in (["org", "create", "A"], ["key", "create"])
    ]
    with (
        running([*socialpub, "serve"], f"http://127.0.0.1:{inside}", tmp_path),
        running(proxy(tmp_path, outside, inside), url, tmp_path),
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {made[1]['key']}"}, timeout=60) as client,
    ):
        assert client.get("/v1/posts").status_code == 200
        large = client.post("/v1/media", files={"file": ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(64 << 20), "image/png")})
        assert large.json()["error"]["rule"] == "media.unreadable"  # all of it arrived, and was looked at
        assert "nextCursor" not in client.get("/v1/posts", headers={"Host": "other.example"}).text
        assert f"127.0.0.1:{inside}" not in client.get("/docs/reference").text


def _run(command: list[str], cwd: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(cwd)}
    return subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True, text=True).stdout


def test_a_proxy_waits_longer_than_a_request_may() -> None:
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s", (DOCS / "nginx.conf").read_text())
    assert int(seconds) > LONGEST_WAIT


# --- systemd -------------------------------------------------------------------------------------------------------


def test_the_unit_is_right_and_tight(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "socialpub"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "socialpub.service"
    unit.write_text((DOCS / "socialpub.service").read_text().replace("/usr/local/bin/socialpub", str(program)))
    checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    told = [line for line in checked.stderr.splitlines() if str(unit) in line or "socialpub" in line]
    assert (checked.returncode, told) == (0, [])
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    (exposure,) = re.findall(r"Overall exposure level for .*: ([\d.]+)", rated.stdout)
    assert float(exposure) < 2.5, rated.stdout


# --- The page ------------------------------------------------------------------------------------------------------


def test_every_command_of_the_page_exists() -> None:
    text = (ROOT / "docs" / "running.md").read_text()
    words = set(re.findall(r"(?:^ {4}|`)socialpub ([a-z]+)", text, re.M))
    assert {"demo", "backup", "verify", "restore", "resume", "org"} <= words
    for word in words:
        _run([sys.executable, "-m", "socialpub", word, "--help"], ROOT)


def test_every_file_that_the_page_names_is_there() -> None:
    text = (ROOT / "docs" / "running.md").read_text()
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    assert links
    for link in links:
        assert (ROOT / "docs" / link).exists(), link
