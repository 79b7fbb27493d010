"""docs/running.md, executed line by line as root with a separate service user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fake_systemctl import USER
from tests.support.running_docs import LEFT_OUT, blocks

ROOT = Path(__file__).parents[2]
# A copy of the root of this machine whose changes are in memory, with a network that has only a loopback.
MACHINE = r"""
umask 022
mount -t tmpfs machine "$1" && mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay machine -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for name in dev sys; do mount --rbind "/$name" "$1/root/$name"; done
mount -t proc proc "$1/root/proc"
mount -t tmpfs run "$1/root/run"
mount -t tmpfs tmp "$1/root/tmp"
if [ ! -e "$1/root$3" ]; then  # a checkout under /tmp
    mkdir -p "$1/root$3" && mount --bind "$3" "$1/root$3" && mount -o remount,bind,ro "$1/root$3"
fi
ip link set lo up
cd / && exec chroot "$1/root" sh -euc "$2" sh
"""
INSIDE = r"""
rm -rf /var/lib/socialpub* /etc/socialpub.toml /backups /safe  # of this machine: only in its copy
chmod -R a+rX /opt/socialpub
chmod 1777 /tmp && chmod 755 /root && mkdir -p /root/work /run/socialpub-standin
useradd --system --no-create-home {user}
for name in systemctl journalctl; do
    printf '#!/bin/sh\nexec {python} {root}/tests/support/fake_systemctl.py %s "$@"\n' "$name" > "/usr/local/bin/$name"
    chmod 755 "/usr/local/bin/$name"
done
printf '#!/bin/sh\nexec /opt/socialpub/bin/python -m socialpub "$@"\n' > /root/work/socialpub
cp {root}/docs/running/socialpub.service /root/work/
cd {root} && PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin exec {python} -m tests.support.running_docs
"""


def machine_or_skip() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("!!! NOT DONE: executing docs/running.md needs Linux and root")
    tried = ["unshare", "--mount", "--net", "sh", "-c", "ip link set lo up && mount -t tmpfs t /mnt && cd /mnt && "]
    tried[-1] += "mkdir u w r && mount -t overlay o -o lowerdir=/,upperdir=u,workdir=w r"
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    if done.returncode or shutil.which("useradd", path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        pytest.skip(
            f"!!! NOT DONE: no copy of this machine can be made: {done.stderr.strip() or 'there is no useradd'}"
        )


def test_every_block_of_the_page_is_executed_or_left_out_for_a_reason() -> None:
    known = [name for name in LEFT_OUT if any(block.startswith(name) for block in blocks())]
    assert known == list(LEFT_OUT)


@pytest.mark.slow
def test_page_runs_line_by_line_as_root_with_a_service_user(installed: Path, tmp_path: Path) -> None:
    """Install, first owner, publish, backup, restore, new key, move, upgrade, way back, uninstall."""
    machine_or_skip()
    program = tmp_path / "socialpub"
    shutil.copytree(installed.parents[1], program, symlinks=True)
    inside = INSIDE.format(user=USER, python=sys.executable, root=ROOT)
    machine = tmp_path / "machine"
    machine.mkdir()
    script = MACHINE.replace("ip link", f'mkdir -p "$1/root/opt" && cp -a {program} "$1/root/opt/socialpub"\nip link')
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-euc",
            script,
            "sh",
            machine,
            inside,
            ROOT,
        ],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "executed:" in done.stdout
    assert subprocess.run(["id", USER], capture_output=True, check=False).returncode != 0  # nothing is left here
