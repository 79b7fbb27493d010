"""`socialpub config example`: settings file with all defaults (`socialpub.toml.example`)."""

from __future__ import annotations

from socialpub import platforms
from socialpub.base import settings_docs
from socialpub.commands.click_types import CommandOptions


def build() -> str:
    """Return every setting with default and help, commented out."""
    return settings_docs.render_example({name: platform.site for name, platform in platforms.PLATFORMS.items()})


def show(options: CommandOptions) -> str:
    """Return the file; with `--json` it is one JSON string."""
    options.sentences = build().splitlines()
    return build()
