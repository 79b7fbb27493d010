"""Settings as text: `socialpub.toml.example`, the help of a setting, a value in TOML."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from socialpub.base import field_docs
from socialpub.base.config import Settings
from socialpub.base.settings_sections import SettingsSection


def render_example(platform_sections: Mapping[str, type[BaseModel]]) -> str:
    """Return the text of socialpub.toml.example: every setting with its default and its help."""
    parts = [
        "# socialpub.toml: every setting with its default. No setting is required; uncomment what you change.\n"
        "# Each can also be set in the environment: SOCIALPUB_SECTION__KEY=value (lists as JSON).\n"
        '# Durations are seconds, or text such as "30s", "5m", "12h", "7d".\n'
    ]
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, SettingsSection):
            parts.append(_render_section(name, field.annotation))
    parts += [_render_section(f"platforms.{name}", model) for name, model in platform_sections.items()]
    return "\n".join(parts)


def _render_section(name: str, model: type[BaseModel]) -> str:
    lines = [f"[{name}]"]
    for key, field in model.model_fields.items():
        lines += [f"# {line}" for line in get_help(model, key).splitlines()]
        lines.append(f"#{key} = {format_toml(field.get_default(call_default_factory=True))}")
    return "\n".join(lines) + "\n"


def get_help(model: type[BaseModel], key: str) -> str:
    """Return the help of a setting, from its section or the one that it extends."""
    return field_docs.read(model).get(key, "")


def format_toml(value: object) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_toml(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
