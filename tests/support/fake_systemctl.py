"""Fake `systemctl` and `journalctl` for docs/running.md on machines without systemd.

It supports ExecStart, Environment, WorkingDirectory, StateDirectory, UMask, LoadCredential and SetCredential of a unit,
and runs it as a system user in place of DynamicUser. It has no sandbox: `systemd-analyze` checks those settings.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

USER = "socialpub-page"
UNIT = Path("/etc/systemd/system/socialpub.service")
RUN, JOURNAL = Path("/run/socialpub-standin"), Path("/var/log/socialpub.journal")
CREDENTIALS = RUN / "credentials"
PATIENCE_SECONDS = 40


def setting(name: str) -> list[str]:
    """Every value of a setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.M)


def words(name: str) -> list[str]:
    return [word.replace("%d", str(CREDENTIALS)) for value in setting(name) for word in value.split()]


def prepare(uid: int, gid: int) -> None:
    """The folders of the unit, given to its user where the folder itself is not; the copy of the settings."""
    for name in words("StateDirectory"):
        real, link = Path("/var/lib/private", name), Path("/var/lib", name)
        real.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not link.is_symlink():
            link.symlink_to(real)
        if real.stat().st_uid != uid:  # as systemd does: it looks at the folder itself alone
            for path in (real, *real.rglob("*")):
                os.lchown(path, uid, gid)
    Path("/var/lib/private").chmod(0o755)  # systemd gives its user a way there by a mount
    CREDENTIALS.mkdir(parents=True, exist_ok=True)
    for value in setting("SetCredential"):
        name, _, text = value.partition(":")
        (CREDENTIALS / name).write_text(text)
    for value in setting("LoadCredential"):
        name, _, source = value.partition(":")
        if Path(source).exists():
            shutil.copyfile(source, CREDENTIALS / name)
    for path in CREDENTIALS.iterdir():
        path.chmod(0o400)
        os.chown(path, uid, gid)


def start() -> None:
    user = pwd.getpwnam(USER)
    prepare(user.pw_uid, user.pw_gid)
    environment = dict(word.split("=", 1) for word in words("Environment"))
    before = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--no-new-privs"]
    with JOURNAL.open("ab") as journal:
        started = subprocess.Popen(
            [*before, *words("ExecStart")],
            cwd=words("WorkingDirectory")[0],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"} | environment,
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            umask=int(words("UMask")[0], 8),
            start_new_session=True,
        )
    (RUN / "pid").write_text(str(started.pid))


def stop() -> None:
    """Ask it to stop, and wait for its end."""
    if not (RUN / "pid").exists():
        return
    number = int((RUN / "pid").read_text())
    (RUN / "pid").unlink()
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        os.kill(number, signal.SIGTERM)
        while time.monotonic() < until and Path(f"/proc/{number}").exists() and " Z " not in _state(number):
            time.sleep(0.05)
    except ProcessLookupError:
        return


def _state(number: int) -> str:
    try:
        return Path(f"/proc/{number}/stat").read_text()
    except FileNotFoundError:
        return " Z "


def main(program: str, *arguments: str) -> None:
    if program == "journalctl":
        sys.stdout.write(JOURNAL.read_text())
        return
    {
        ("daemon-reload",): lambda: None,
        ("enable", "--now", "socialpub"): start,
        ("start", "socialpub"): start,
        ("stop", "socialpub"): stop,
        ("disable", "--now", "socialpub"): stop,
    }[arguments]()


if __name__ == "__main__":
    main(Path(sys.argv[1]).name, *sys.argv[2:])
