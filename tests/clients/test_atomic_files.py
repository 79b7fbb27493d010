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


def test_a_link_stays_and_leads_to_the_new_content(tmp_path: Path) -> None:
    """As of settings that are kept in a repository, and linked to from the home folder."""
    (tmp_path / "kept").mkdir()
    kept, link = tmp_path / "kept" / "servers.toml", tmp_path / "servers.toml"
    link.symlink_to(kept)
    for content in (b"new", b"newer"):  # first, it leads nowhere yet
        atomic_files.write(link, content)
        assert (kept.read_bytes(), link.is_symlink()) == (content, True)
    assert list(kept.parent.iterdir()) == [kept]


def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """Root's `--out /dev/null` would leave this machine without it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(reader, "rb") as read:
        atomic_files.write(pipe, b"new")
        assert read.read() == b"new"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
