"""Files that the client writes whole, when Ctrl-C comes meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from socialpub_client import atomic_files


@pytest.mark.parametrize(("step", "content"), [("fsync", b"old"), ("replace", b"new")])
def test_an_interruption_goes_on_and_leaves_one_whole_file(
    step: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes just after a step; the last one has the file in its place already."""
    path, real = tmp_path / "cursor", getattr(os, step)
    atomic_files.write(path, b"old")

    def interrupted(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic_files.write(path, b"new")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]
