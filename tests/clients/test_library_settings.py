"""Settings of the Python library: argument, environment, file; and the cost of its import."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from socialpub_client import ConfigurationError, Socialpub
from socialpub_client.servers import Server, resolve_server, servers_file

FILE = """
[default]
url = "https://kept.example.org"
key = "kept-key"
[work]
url = "https://work.example.org/"
key = "work-key"
profile = "work-profile"
"""
ENVIRONMENT = {"SOCIALPUB_URL": "https://env.example.org", "SOCIALPUB_KEY": "env-key"}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = servers_file(environment)
    file.parent.mkdir()
    file.write_text(FILE)
    file.chmod(0o600)
    return environment


@pytest.mark.parametrize(
    "url, key, name, with_environment, expected",
    [
        ("https://a.example.org", "k", None, True, Server("https://a.example.org", "k")),
        (None, "k", None, True, Server("https://env.example.org", "k")),
        (None, None, None, True, Server("https://env.example.org", "env-key")),
        (None, None, None, False, Server("https://kept.example.org", "kept-key")),
        (None, None, "work", True, Server("https://work.example.org/", "work-key", "work-profile")),
        ("https://work.example.org", "k", "work", False, Server("https://work.example.org/", "k", "work-profile")),
    ],
)
def test_argument_before_environment_before_file(
    home: dict[str, str], url: str | None, key: str | None, name: str | None, with_environment: bool, expected: Server
) -> None:
    environment = home | (ENVIRONMENT if with_environment else {})
    assert resolve_server(url, key, name, None, environment) == expected


def test_a_kept_key_goes_to_its_own_address_only(home: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="no API key"):
        resolve_server("https://elsewhere.example.org", None, None, None, home)
    with pytest.raises(ConfigurationError):
        resolve_server("https://elsewhere.example.org", None, "work", None, home)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org",
        "https://",
        "https://a..example.org",
        "https://exa mple.org",
        "https://example.org/\x01",
        "https://[::1",
        "http://127.0.0.1:http",
        "http://127.0.0.1:65537",
        "http://127.0.0.1:0",
        "https://example.org?a=b",
        "https://me@example.org",
        "http://example.org",
    ],
)
def test_an_address_that_nothing_is_sent_to_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Socialpub(url, "key")


def test_a_proxy_of_the_environment_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "foo://proxy.example")
    with Socialpub("https://example.org", "key") as sp, pytest.raises(ConfigurationError, match="foo://proxy"):
        sp.me()


@pytest.mark.parametrize("text", ["[", "[default]\nurl = 1\nkey = 'k'", "[default]\nurl = 'u'", "default = 'secret'"])
def test_a_file_that_cannot_be_used_is_refused(home: dict[str, str], text: str) -> None:
    servers_file(home).write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        resolve_server(None, None, None, None, home)
    assert "secret" not in str(refused.value)


def test_a_file_that_others_can_read_is_refused(home: dict[str, str]) -> None:
    servers_file(home).chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        resolve_server(None, None, None, None, home)


def test_nothing_given_and_an_unknown_name_say_what_to_do(home: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SOCIALPUB_URL"):
        resolve_server(None, None, None, None, {"XDG_CONFIG_HOME": str(tmp_path / "none")})
    with pytest.raises(ConfigurationError, match="default, work"):
        resolve_server(None, None, "play", None, home)


def test_importing_the_client_loads_little() -> None:
    code = "import sys, json; before = len(sys.modules); import socialpub_client; print(json.dumps([*sys.modules]))"
    loaded = set(json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout))
    assert not loaded & {
        "httpx",
        "asyncio",
        "ssl",
        "pydantic",
        "yaml",
        "click",
        "socialpub",
        "socialpub_client.answers",
    }
    assert len(loaded) < 150, sorted(loaded)


def test_an_empty_environment_gets_few_packages() -> None:
    needed, left = set(), ["socialpub-client"]
    while left:
        name = canonicalize_name(left.pop())
        if name not in needed:
            needed.add(name)
            requirements = [Requirement(text) for text in metadata.requires(name) or []]
            left += [each.name for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
    assert len(needed) <= 12, sorted(needed)
    assert not needed & {"pydantic", "socialpub", "sanic"}
