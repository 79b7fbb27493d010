"""File permissions: private when made, restricted when found open, refused when foreign."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from socialpub.base.security import private_files
from tests.support.command_runner import RunCommand, run_command

SECRET = '[platforms.facebook]\nclient_id = "1"\nclient_secret = "canary-of-the-app"\n'
CREATE = ("org", "create", "Acme", "--json")
a_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def open_handed() -> Iterator[None]:
    """A system on which everybody may read what is made."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_ones(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if mode(path) & 0o077]


def test_everything_that_a_command_makes_is_for_its_user_alone(folder: Path) -> None:
    home = folder / "home"
    ended = run_command(*CREATE, "--database", str(home / "data" / "socialpub.db"), cwd=folder)
    assert ended.code == 0, ended.err
    assert {path.name for path in (home / "data").iterdir()} >= {"socialpub.db", "socialpub.db.write", "master.key"}
    assert (open_ones(home), mode(home), mode(home / "data")) == ([], 0o700, 0o700)


def test_what_is_found_open_is_closed_and_the_log_says_so(folder: Path, run: RunCommand) -> None:
    assert run(*CREATE).code == 0
    names = ("socialpub.db", "socialpub.db.write", "socialpub.db.lock")
    for name in names:
        (folder / name).touch()
        (folder / name).chmod(0o644)
    (folder / "media").mkdir()
    (folder / "media").chmod(0o755)
    ended = run_command("org", "list", "--json", cwd=folder)
    assert ended.code == 0, ended.err
    assert open_ones(folder) == []
    assert f"{folder / 'socialpub.db'} was accessible to other users (mode 644)" in ended.err
    assert len(ended.err.splitlines()) == len(names) + 1
    assert run_command("migrate", "--json", cwd=folder).err == ""


@pytest.mark.parametrize("given", [0o604, 0o644, 0o620, 0o606])
def test_a_settings_file_with_secrets_that_others_may_use_is_refused(folder: Path, run: RunCommand, given: int) -> None:
    path = folder / "socialpub.toml"
    path.write_text(SECRET)
    path.chmod(given)
    ended = run(*CREATE)
    assert ended.code == 1
    assert "holds secrets (platforms.facebook.client_secret) and is open to other users" in ended.error["message"]
    assert ended.error["message"].endswith("run: chmod 600 socialpub.toml")
    assert "canary" not in ended.err + ended.out
    assert [each.name for each in folder.iterdir()] == ["socialpub.toml"]
    for allowed in (0o600, 0o640):  # its group: the usual way to hand one to a service
        path.chmod(allowed)
        assert run(*CREATE).code == 0


def test_a_settings_file_without_secrets_may_be_read_by_all(folder: Path, run: RunCommand) -> None:
    (folder / "socialpub.toml").write_text('[server]\nport = 9001\n[platforms.facebook]\nclient_secret = ""\n')
    assert run(*CREATE).code == 0


@a_root
def test_files_of_another_user_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, yours = folder / "mine", folder / "yours"
    mine.write_text(SECRET)
    yours.touch()
    os.chown(yours, 4321, -1)
    assert private_files.restrict_permissions([mine, yours]) is None  # root may use everything
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    os.chown(mine, 1234, -1)
    assert f"{yours} belongs to another user (number 4321)" in str(private_files.restrict_permissions([mine, yours]))
    assert "belongs to another user (number 4321)" in str(private_files.find_permission_problem(yours, []))
    os.chown(yours, 0, -1)
    assert private_files.find_permission_problem(yours, []) is None  # the administrator's


def test_git_ignores_what_must_not_be_given_away(folder: Path) -> None:
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    assert {"master.key", "*.db*", "/media/", "/socialpub.toml"} <= set(ignored)
