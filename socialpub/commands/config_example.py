"""`socialpub config example`: settings file with all defaults (`socialpub.toml.example`)."""

from __future__ import annotations

import json

from socialpub import platforms
from socialpub.base import config
from socialpub.commands.click_types import CommandOptions


def build() -> str:
    """Return every setting with default and help, commented out."""
    return config.render_example({name: platform.site for name, platform in platforms.PLATFORMS.items()})


def show(options: CommandOptions) -> None:
    """Print the file; with `--json` as one JSON string."""
    print(json.dumps(build(), ensure_ascii=False) if options.json else build(), end="\n" if options.json else "")
