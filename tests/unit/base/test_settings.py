"""Settings from file, environment and command line: precedence, errors, hidden secrets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from socialpub.base import config
from socialpub.base.config import ConfigError, Settings
from socialpub.commands import config_example
from socialpub.commands.serve import check_platforms
from socialpub.platforms import PLATFORMS, site
from tests.support.settings_files import load_settings

PROJECT = Path(__file__).parents[3]

ROOT = Path(__file__).parents[3]
SECRET = "hunter2-do-not-show"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- Where values come from --------------------------------------------------------------------------------------


def test_without_a_file_everything_has_a_default() -> None:
    settings = config.load()
    assert settings.base_url == "http://127.0.0.1:8080"
    assert settings.database_path == Path("socialpub.db")
    assert settings.data_dir == Path.cwd()
    assert settings.key_file == Path.cwd() / "master.key"


def test_the_file_in_the_current_directory_is_read_by_itself() -> None:
    Path("socialpub.toml").write_text("[server]\nport = 9001\n")
    assert config.load().server.port == 9001


def test_a_named_file_is_read_instead_of_the_one_in_the_current_directory() -> None:
    Path("socialpub.toml").write_text("[server]\nport = 9001\n")
    assert load_settings("[server]\nport = 9002").server.port == 9002


def test_a_byte_order_mark_before_the_settings_is_skipped() -> None:
    Path("socialpub.toml").write_bytes(b"\xef\xbb\xbf[server]\r\nport = 9001\r\n")
    assert config.load().server.port == 9001


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCIALPUB_SERVER__PORT", "9003")
    settings = load_settings('[server]\nport = 9002\nhost = "0.0.0.0"')
    assert (settings.server.port, settings.server.host) == (9003, "0.0.0.0")


def test_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCIALPUB_SERVER__PORT", "9003")
    settings = load_settings('[server]\nhost = "0.0.0.0"', {"server": {"port": 9004}, "storage": {}})
    assert (settings.server.port, settings.server.host) == (9004, "0.0.0.0")


def test_lists_in_the_environment_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCIALPUB_SERVER__TRUSTED_PROXIES", '["10.0.0.1"]')
    assert config.load().server.trusted_proxies == ["10.0.0.1"]


@pytest.mark.parametrize("name", ["SERVER__TRUSTED_PROXIES", "BILLING__VARIANTS"])
def test_a_list_in_the_environment_that_is_no_json_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCIALPUB_WEBHOOKS__ALLOWED_HOSTS", '["n8n"]')
    monkeypatch.setenv(f"SOCIALPUB_{name}", "10.0.0.1")
    with pytest.raises(ConfigError, match=rf"^SOCIALPUB_{name} in the environment: lists and tables must be"):
        config.load()


def test_a_platform_can_be_set_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCIALPUB_PLATFORMS__BLUESKY__SERVICE", "https://pds.example")
    settings = config.load()
    check_platforms(settings)
    assert site("bluesky", settings.platforms["bluesky"]).service == "https://pds.example"


def test_settings_of_one_file_do_not_stay_for_the_next() -> None:
    load_settings("[server]\nport = 9002")
    assert config.load().server.port == 8080


# --- What is wrong is named --------------------------------------------------------------------------------------

WRONG: list[tuple[str, str]] = [
    ("[server]\nprot = 1", "server.prot: there is no such setting; did you mean server.port?"),
    ("[sever]\nport = 1", "sever: there is no such setting; did you mean server?"),
    ("[server]\nport = 65536", "server.port: "),
    ("[server]\nport = -1", "server.port: "),
    ('[server]\nhost = ""', "server.host: "),  # it would be every address of the machine
    ('[server]\nport = "http"', "server.port: "),
    ('[server]\nbase_url = "example.com"', "server.base_url: "),
    ('[server]\nbase_url = "https://example.com/social"', "server.base_url: "),
    ('[server]\nbase_url = "ftp://example.com"', "server.base_url: "),
    ('[tokens]\nexpiring = "7 weeks"', "tokens.expiring: "),
    ('[tokens]\nexpiring = ""', "tokens.expiring: "),
    ("[tokens]\nexpiring = -1", "tokens.expiring: "),
    ('[publishing]\nretry_waits = ["30s", "soon"]', "publishing.retry_waits.1: "),
    ('[publishing]\nimmediate_wait = "56s"', "publishing.immediate_wait: "),
    ("[limits]\nposts = 0", "limits.posts: "),
    ('[security]\nkey_prefix = "9"', "security.key_prefix: "),
    ('[database]\nurl = "postgresql://localhost/x"', "database.url: only an SQLite file is supported today"),
    ("server = 3", "server: "),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_setting_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(text)
    assert str(caught.value).startswith(message)


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings("[server]\nport = 70000\n[limits]\nposts = 0")
    assert "server.port: " in str(caught.value)
    assert "limits.posts: " in str(caught.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        config.load(Path("nowhere.toml"))


@pytest.mark.parametrize("content", [b"[server\n", b"[server]\nport =", b"\xff\xfe", b"port = 1\nport = 2"])
def test_a_file_that_is_no_toml_is_named(content: bytes) -> None:
    Path("broken.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken\.toml: "):
        config.load(Path("broken.toml"))


def test_a_wrong_variable_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCIALPUB_SERVER__PORT", "many")
    with pytest.raises(ConfigError, match=r"server\.port: "):
        config.load()


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("SOCIALPUB_SERVR__PORT", "; did you mean SOCIALPUB_SERVER__PORT?"),
        ("SOCIALPUB_DATABASE_URL", "; did you mean SOCIALPUB_DATABASE__URL?"),
        ("SOCIALPUB_PORT", ""),
        ("SOCIALPUB_WINDOWS__TITLE", ""),
    ],
)
def test_a_variable_that_is_no_setting_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, variable: str, told: str
) -> None:
    monkeypatch.setenv(variable, "8081")
    with pytest.raises(ConfigError) as caught:
        config.load()
    assert str(caught.value) == f"{variable} in the environment: there is no such setting{told}"


def test_variables_of_the_documentation_do_not_stop_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [path for name in ("start", "guides") for path in (PROJECT / "templates/docs" / name).rglob("*.*")]
    found = {name for path in examples for name in re.findall(r"\bSOCIALPUB_[A-Z]+(?:_[A-Z]+)*", path.read_text())}
    assert "SOCIALPUB_LAB" in found
    for variable in found:
        monkeypatch.setenv(variable, "x")
    assert config.load().server.port == 8080


def test_variables_that_are_read_elsewhere_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in config.OTHER_VARIABLES:
        monkeypatch.setenv(variable, "x")
    assert config.load().server.port == 8080


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[platforms.myspace]\nenabled = true", "platforms.myspace: unknown platform; known: bluesky, "),
        (
            "[platforms.bluesky]\nservcie = 'x'",
            "platforms.bluesky.servcie: there is no such setting; did you mean platforms.bluesky.service?",
        ),
        ("[platforms.bluesky]\nservice = 'bsky.social'", "platforms.bluesky.service: "),
        ("[platforms.facebook]\nenabled = 'perhaps'", "platforms.facebook.enabled: "),
    ],
)
def test_a_wrong_platform_section_is_named(table: str, message: str) -> None:
    settings = load_settings(table)
    with pytest.raises(ConfigError) as caught:
        check_platforms(settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        f'[security]\nencryption_keys = "{SECRET}"',
        f'[security]\nencryption_keys = ["{SECRET}", 1]',
        f'[security]\nencryption_key = "{SECRET}"',
        f'[security]\nkey_prefix = ["{SECRET}"]',
        f'[platforms.facebook]\nclient_secret = ["{SECRET}"]',
        f'[platforms.facebook]\nclient_secert = "{SECRET}"',
    ],
)
def test_a_message_never_shows_the_value(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_platforms(load_settings(text))
    assert SECRET not in str(caught.value)


# --- Values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("90", 90.0),
        ("1.5", 1.5),
        ('"250ms"', 0.25),
        ('"30s"', 30.0),
        ('"5m"', 300.0),
        ('"12h"', 43_200.0),
        ('"7d"', 604_800.0),
        ('" 30s "', 30.0),
        ('"36500d"', 3_153_600_000.0),
    ],
)
def test_a_duration_is_seconds_or_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert load_settings(f"[tokens]\nexpiring = {text}").tokens.expiring == seconds


@pytest.mark.parametrize("text", ['"36501d"', "3153600001", '"99999999999999999999d"', '"1e9d"', "inf", "-1", '"soon"'])
def test_no_duration_is_negative_or_longer_than_a_century(text: str) -> None:
    with pytest.raises(ConfigError, match=r"tokens\.expiring.*a duration is"):
        load_settings(f"[tokens]\nexpiring = {text}")


@pytest.mark.parametrize(
    ("server", "base_url"),
    [
        ('base_url = "https://social.example.com/"', "https://social.example.com"),
        ('base_url = "https://social.example.com:8443"', "https://social.example.com:8443"),
        ('host = "0.0.0.0"\nport = 80', "http://0.0.0.0:80"),
        ('host = "::1"', "http://[::1]:8080"),
    ],
)
def test_the_base_url_is_an_origin(server: str, base_url: str) -> None:
    assert load_settings(f"[server]\n{server}").base_url == base_url


def test_the_data_directory_is_beside_the_database_unless_it_is_named(tmp_path: Path) -> None:
    assert load_settings(f'[database]\nurl = "{tmp_path}/deep/x.db"').data_dir == tmp_path / "deep"
    assert load_settings(f'[storage]\ndata_dir = "{tmp_path}/data"').key_file == tmp_path / "data" / "master.key"
    assert load_settings('[security]\nencryption_key_file = "/run/key"').key_file == Path("/run/key")


# --- The example -------------------------------------------------------------------------------------------------


def _uncommented(text: str) -> str:
    """The example with every setting switched on. Settings are `#name`, help is `# text`."""
    return "\n".join(line[1:] if line.startswith("#") and line[1:2].isalpha() else line for line in text.splitlines())


def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    return {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}


def test_the_example_in_the_repository_is_what_the_settings_say() -> None:
    assert (ROOT / "socialpub.toml.example").read_text(encoding="utf-8") == config_example.build()


def test_the_example_as_it_is_changes_nothing() -> None:
    assert tomllib.loads(config_example.build()) == {name: {} for name in _sections()} | {
        "platforms": {name: {} for name in PLATFORMS}
    }
    assert (
        load_settings(config_example.build()).model_copy(update={"platforms": {}}).model_dump()
        == config.load().model_dump()
    )


def test_what_is_not_set_is_closed() -> None:
    settings = config.load()
    assert settings.server.host == "127.0.0.1"
    assert settings.security.allow_private_networks is False
    assert set(settings.server.trusted_proxies) == {"127.0.0.1", "::1"}


def test_the_example_shows_every_setting_with_its_default() -> None:
    shown = tomllib.loads(_uncommented(config_example.build()))
    for name, section in _sections().items():
        assert shown[name] == _defaults(section), name
    assert {name: shown["platforms"][name] for name in PLATFORMS} == {
        name: {key: list(value) if isinstance(value, tuple) else value for key, value in _defaults(row.site).items()}
        for name, row in PLATFORMS.items()
    }


def test_the_example_switched_on_is_accepted_and_changes_nothing() -> None:
    settings = load_settings(_uncommented(config_example.build()))
    check_platforms(settings)
    assert settings.model_copy(update={"platforms": {}}).model_dump() == config.load().model_dump()


def _sections() -> dict[str, type[BaseModel]]:
    fields = Settings.model_fields.items()
    return {name: field.annotation for name, field in fields if isinstance(field.annotation, type)}  # type: ignore[misc]
