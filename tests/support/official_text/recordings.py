"""Recorder and loader of official libraries' text parsing results (`golden.json`).

    python -m tests.support.official_text.recordings     # writes golden.json; needs node, npm and the package registry

`golden.json` contains texts of `samples.py` and the results of the libraries in `PACKAGES`, by `read.mjs`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.official_text.samples import make_linked_text, make_tagged_text, texts

HERE = Path(__file__).parent
FILE = HERE / "golden.json"
PACKAGES = ("@atproto/api@0.21.0", "twitter-text@3.1.0")
SEED, EACH = 20261126, 150
TextReading = dict[str, Any]
"""`bluesky`: [first byte, end, kind, value] of each facet; `length`, `urls`, `cashtags`: X's."""


def install_libraries(folder: Path) -> None:
    """Install the libraries into a folder, from the package registry."""
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", *PACKAGES]
    subprocess.run(command, cwd=folder, check=True, timeout=300)


def read_texts(folder: Path, given: list[str]) -> list[TextReading]:
    """What the libraries in a folder find in texts."""
    command = ["node", str(HERE / "read.mjs")]
    done = subprocess.run(command, cwd=folder, input=json.dumps(given).encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return list(json.loads(done.stdout))


def load_recordings() -> list[tuple[str, TextReading]]:
    """(text, what was found) of the file."""
    return [(each["text"], each) for each in json.loads(FILE.read_text(encoding="utf-8"))]


def main() -> None:
    factories: list[Callable[[Any], str]] = [make_tagged_text, make_linked_text]
    given = [text for make in factories for text in texts(SEED, EACH, make)]
    with tempfile.TemporaryDirectory() as name:
        install_libraries(Path(name))
        found = read_texts(Path(name), given)
    lines = [json.dumps({"text": text, **each}) for text, each in zip(given, found, strict=True)]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
