"""Release programs of .ci as modules, pinned dependency versions, and the base image."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

DEBIAN = "http://deb.debian.org/debian"


ROOT = Path(__file__).parents[2]


def module_of(name: str) -> Any:
    """A program of `.ci`, to call what is in it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s\\]+)", lock, re.M))
