"""Settings, read from `socialpub.toml`, the environment and the command line.

`settings_sections.py` has the settings themselves. The sections of platforms are plain tables here; the platforms check
them.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, get_origin

from pydantic import PrivateAttr, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from socialpub.base.security import private_files
from socialpub.base.settings_sections import (
    BackupSettings,
    BillingSettings,
    DatabaseSettings,
    LogSettings,
    McpSettings,
    MediaSettings,
    NotificationSettings,
    PublishingSettings,
    RateLimitSettings,
    RetentionSettings,
    SchedulingSettings,
    SecuritySettings,
    ServerSettings,
    SettingsSection,
    SmtpSettings,
    StorageSettings,
    TokenSettings,
    TracingSettings,
    WebhookSettings,
)
from socialpub.base.system import os_errors

CONFIG_FILE = "socialpub.toml"
VARIABLE_PREFIX = "SOCIALPUB_"
# Read by the commands over the API and by tests; the last five are those of the examples in /docs.
OTHER_VARIABLES = ("SOCIALPUB_URL", "SOCIALPUB_KEY", "SOCIALPUB_TEST", "SOCIALPUB_FAULTS") + (
    "SOCIALPUB_ACCOUNT",
    "SOCIALPUB_LAB",
    "SOCIALPUB_PLANNING_KEY",
    "SOCIALPUB_RECEIVER",
    "SOCIALPUB_WEBHOOK_SECRET",
)
_SECRET_WORDS = ("secret", "password", "encryption_keys", "metrics_token")


class ConfigError(Exception):
    """The configuration cannot be used; the message names the setting and the fix."""


class Settings(BaseSettings):
    """All settings.

    Precedence: command line, environment (SOCIALPUB_SECTION__KEY), file, defaults.
    """

    model_config = SettingsConfigDict(env_prefix=VARIABLE_PREFIX, env_nested_delimiter="__", extra="forbid")

    server: ServerSettings = ServerSettings()
    database: DatabaseSettings = DatabaseSettings()
    storage: StorageSettings = StorageSettings()
    security: SecuritySettings = SecuritySettings()
    limits: RateLimitSettings = RateLimitSettings()
    media: MediaSettings = MediaSettings()
    webhooks: WebhookSettings = WebhookSettings()
    notifications: NotificationSettings = NotificationSettings()
    smtp: SmtpSettings = SmtpSettings()
    tokens: TokenSettings = TokenSettings()
    publishing: PublishingSettings = PublishingSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    billing: BillingSettings = BillingSettings()
    mcp: McpSettings = McpSettings()
    retention: RetentionSettings = RetentionSettings()
    backup: BackupSettings = BackupSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    platforms: dict[str, dict[str, Any]] = {}

    _file: Path | None = PrivateAttr(None)

    @property
    def read_from(self) -> str:
        """The settings file that was read, as text for people."""
        return str(
            self._file or f"no file: {Path(CONFIG_FILE).absolute()} does not exist (set another one with --config)"
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file_values = InitSettingsSource(settings_cls, init_kwargs=_file_values)
        return init_settings, env_settings, file_values

    @property
    def base_url(self) -> str:
        """The public origin, without a trailing slash."""
        return self.server.base_url or self.local_url

    @property
    def local_url(self) -> str:
        """The origin at which the server listens."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        return f"http://{host}:{self.server.port}"

    @property
    def database_path(self) -> Path:
        return Path(self.database.url)

    @cached_property
    def data_dir(self) -> Path:
        return Path(self.storage.data_dir) if self.storage.data_dir else self.database_path.resolve().parent

    @property
    def key_file(self) -> Path:
        named = self.security.encryption_key_file
        return Path(named) if named else self.data_dir / "master.key"


_file_values: dict[str, Any] = {}


def load(path: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """Return the settings of a file, the environment and `overrides`.

    `path` defaults to ./socialpub.toml if it exists. Raise ConfigError with the file or setting that cannot be used.
    """
    _check_environment()
    _file_values.clear()
    values = _read_file(path)
    _file_values.update(values or {})
    try:
        given: dict[str, Any] = {name: dict(values) for name, values in (overrides or {}).items() if values}
        settings = Settings(**given)
    except ValidationError as error:
        raise ConfigError(describe_errors(error)) from error
    except SettingsError as error:
        which = " or ".join(_find_invalid_json()) or "a variable"
        raise ConfigError(f"{which} in the environment: lists and tables must be valid JSON") from error
    finally:
        _file_values.clear()
    settings._file = None if values is None else (path or Path(CONFIG_FILE)).absolute()
    if "://" in settings.database.url:
        raise ConfigError("database.url: only an SQLite file is supported today; name a file, for example socialpub.db")
    return settings


def _read_file(path: Path | None) -> dict[str, Any] | None:
    """Return the content of the settings file; None if the default file is missing."""
    named = path or Path(CONFIG_FILE)
    try:
        values = tomllib.loads(named.read_text(encoding="utf-8-sig"))
        why = private_files.find_permission_problem(named, _find_secrets(values))
    except FileNotFoundError as error:
        if path is None:
            return None
        raise ConfigError(f"{named}: the settings file does not exist") from error
    except OSError as error:
        raise ConfigError(f"{named}: the settings file cannot be read: {os_errors.describe(error)}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{named}: {error}") from error
    if why:
        raise ConfigError(f"{named}: {why}")
    return values


def _check_environment() -> None:
    """Raise ConfigError for an environment variable that looks like a setting but is unknown."""
    for variable in sorted(os.environ):
        section, *rest = variable.removeprefix(VARIABLE_PREFIX).lower().split("__")
        if not variable.startswith(VARIABLE_PREFIX) or variable in OTHER_VARIABLES:
            continue
        if section not in Settings.model_fields or not rest:
            suggestion = _find_nearest("__".join((section, *rest)), [name.replace(".", "__") for name in list_names()])
            suggestion = suggestion and f"; did you mean {VARIABLE_PREFIX}{suggestion.upper()}?"
            raise ConfigError(f"{variable} in the environment: there is no such setting{suggestion}")


def _find_invalid_json() -> list[str]:
    """Return the variables that should be a list or table but are not JSON.

    pydantic-settings names only their section.
    """
    found = []
    for variable in sorted(os.environ):
        section, _, name = variable.removeprefix(VARIABLE_PREFIX).lower().partition("__")
        model = Settings.model_fields[section].annotation if section in Settings.model_fields else None
        if variable.startswith(VARIABLE_PREFIX) and isinstance(model, type) and issubclass(model, SettingsSection):
            field = model.model_fields.get(name)
            if field and get_origin(field.annotation) in (list, dict) and not _is_json(os.environ[variable]):
                found.append(variable)
    return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def list_names() -> list[str]:
    """Return every setting as `section.key`, except those of platforms."""
    sections = ((name, field.annotation) for name, field in Settings.model_fields.items())
    return [
        f"{name}.{key}"
        for name, section in sections
        if isinstance(section, type) and issubclass(section, SettingsSection)
        for key in section.model_fields
    ]


def _find_nearest(name: str, known: Sequence[str]) -> str:
    """Return the most similar known name; "" if none is similar."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.7)), "")


def _find_secrets(values: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the names of the secret settings that are set, by the words in them."""
    found: list[str] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _find_secrets(value, f"{path}{name}.")
        elif value and any(word in name for word in _SECRET_WORDS) and not isinstance(value, bool | int | float):
            found.append(path + name)
    return found


def describe_errors(error: ValidationError, prefix: str = "", known: Sequence[str] = ()) -> str:
    """Return the invalid settings and why, in one line, without their values.

    `known` are the names to suggest.
    """
    lines, known = [], known or [*Settings.model_fields, *list_names()]
    for issue in error.errors(include_url=False, include_input=False):
        name = prefix + ".".join(str(part) for part in issue["loc"])
        missing = issue["type"] == "extra_forbidden"
        suggestion = _find_nearest(name, known)
        unknown = f"there is no such setting; did you mean {suggestion}?" if suggestion else "there is no such setting"
        message = unknown if missing else issue["msg"]
        lines.append(f"{name}: {message}")
    return "; ".join(lines)
