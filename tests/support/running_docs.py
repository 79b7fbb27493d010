"""Line-by-line execution of docs/running.md as root in a throwaway root file system.

`tests/project/test_running_page.py` runs it in a copy of this machine's root, with a network of its own. Every command
block of the page is executed, in page order, or listed in LEFT_OUT with the reason.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support import installation_walkthrough
from tests.support.fake_systemctl import USER

PAGE = Path(__file__).parents[2] / "docs" / "running.md"
URL = "http://127.0.0.1:8080"
DATA = Path("/var/lib/socialpub")
CONFIG = ("--config", "/etc/socialpub.toml")
EMAIL, PASSWORD = "owner@example.com", "correct horse battery staple"
LEFT_OUT = {  # by how a block begins
    "pipx install": "needs the package registry; tests/project/test_installation.py does it",
    "pip download": "the same; it runs these lines",
    "make binary": "a container needs an engine; tests/project/test_installation.py builds and runs it",
    "_SOCIALPUB_COMPLETE": "tests/commands/test_command_line.py completes",
    "ssh -L": "there is no other machine",
    "[tracing]": "settings, and no commands",
    "socialpub backups": "needs a bucket; tests/commands/test_s3.py has one",
    "socialpub keys forget": "gives up the accounts; tests/commands/test_keys.py does it",
    "socialpub export": "tests/commands/test_export_import.py and test_spreadsheets.py run them",
    "[retention]": "settings, and no commands",
}


def blocks() -> list[str]:
    """The indented blocks of the page, in their order, each without its indentation."""
    found = re.findall(r"(?:^    \S[^\n]*\n)+", PAGE.read_text(encoding="utf-8"), re.M)
    return [re.sub(r"^    ", "", block, flags=re.M) for block in found]


def run(script: str) -> str:
    """Run lines of the page, one after the other, as root's shell does; each must end with 0."""
    done = subprocess.run(
        ["sh", "-euxc", script], cwd="/root/work", capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def command(*words: str, stdin: str = "") -> Any:
    done = subprocess.run(
        ["socialpub", *words, *CONFIG, "--json"], input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def up() -> None:
    """Until the service answers; with its journal, where it does not."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            assert httpx.get(f"{URL}/healthz", trust_env=False).json() == {"status": "ok"}
            return
        time.sleep(0.1)
    raise AssertionError(run("journalctl -u socialpub"))


def running_services() -> str | None:
    """Why publishing is paused."""
    up()
    paused: str | None = httpx.get(f"{URL}/readyz", trust_env=False).json().get("reason")
    return paused


def list_foreign_files() -> list[str]:
    """The files of the data that are not the service's user's."""
    owner = subprocess.check_output(["id", "-u", USER], text=True).strip()
    return [str(path) for path in DATA.resolve().rglob("*") if str(path.stat().st_uid) != owner]


def is_started(paused: str | None) -> None:
    """The service answers, publishes or is paused for this reason, and everything is its user's."""
    found = (running_services(), list_foreign_files())
    assert found == (paused, []), f"{found}\n{run('journalctl -u socialpub')}"


def first_owner() -> None:
    """As the page says: the link of the log, opened in a browser."""
    found = re.findall(rf"{URL}/setup/\S+", run("journalctl -u socialpub"))
    with httpx.Client(trust_env=False) as browser:
        form = {"organization": "Mine", "email": EMAIL, "password": PASSWORD}
        token = re.findall(r'name="csrf_token" value="([^"]+)"', browser.get(found[-1]).text)
        answer = browser.post(found[-1], data=form | {"csrf_token": token[0]})
        assert answer.status_code == 303, answer.text
    assert [row["name"] for row in command("org", "list")] == ["Mine"]


def account(lab: str) -> str:
    """A key, once an account of the simulator is connected by a command of root beside the service."""
    alice = httpx.post(f"{lab}/lab/accounts", json={"platform": "bluesky", "handle": "alice.test"}, trust_env=False)
    command("account", "connect", "bluesky", "--handle", "alice.test", stdin=alice.json()["appPassword"])
    return str(command("key", "create")["key"])


def publish(key: str, text: str) -> None:
    post = {"text": text, "targets": [{"platform": "bluesky"}]}
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.post(f"{URL}/v1/posts", json=post, headers=headers, trust_env=False, timeout=60)
    assert answer.json().get("status") == "published", answer.text


class RunningPage:
    """The blocks of the page, taken in their order."""

    def __init__(self) -> None:
        self._left = blocks()
        self.done: list[str] = []

    def block(self, begin: str) -> str:
        """The next block that is executed, which begins so; those before it have a reason."""
        while self._left:
            found = self._left.pop(0)
            if found.startswith(begin):
                self.done.append(begin)
                return found
            assert any(found.startswith(known) for known in LEFT_OUT), f"no step and no reason for: {found}"
        raise AssertionError(f"the page has no block that begins with {begin!r}, after {self.done}")

    def end(self) -> None:
        left = [block for block in self._left if not any(block.startswith(known) for known in LEFT_OUT)]
        assert left == []
        everything = blocks()
        assert [known for known in LEFT_OUT if not any(block.startswith(known) for block in everything)] == []


def main() -> None:
    page = RunningPage()
    run(page.block("install -m 755 socialpub /usr/local/bin/socialpub"))
    with installation_walkthrough.running_simulator(lambda *words: ["socialpub", *words]) as platforms:
        lab = str(platforms["url"])
        run(
            page.block("install -m 644 socialpub.service").replace(
                "systemctl enable", f"{more(platforms)}systemctl enable"
            )
        )
        up()
        first_owner()
        key = account(lab)
        publish(key, "After the installation")
        status(page.block("socialpub status"))

        today = "socialpub-$(date +%F).zip"
        backup = page.block("socialpub backup /backups/")
        assert "--config" in backup
        run(backup.replace("socialpub-2026-12-01.zip", today))
        Path("/safe").mkdir()
        run(f"cp {DATA}/master.key /safe/")
        run(page.block("systemctl stop socialpub\nmkdir").replace("socialpub-2026-12-01.zip", today))
        is_started("restored")
        run(page.block("socialpub resume --after-restore"))
        check_waits_until_resumed()
        publish(key, "After the restore")

        run(page.block("socialpub keys rotate"))
        assert list_foreign_files() == []
        publish(key, "With another master key")

        run(page.block("systemctl stop socialpub\nsocialpub move"))
        real = DATA.resolve()
        run(f"cp -a {real} /srv/moved && rm -r {real} && mv /srv/moved {real}")
        run("systemctl start socialpub")
        is_started(None)
        publish(key, "After the move")

        run(page.block("cp /usr/local/bin/socialpub /usr/local/bin/socialpub.old"))
        is_started(None)
        publish(key, "After the upgrade")
        copy = f"{DATA}/socialpub-before-0001_a.db"  # the newest schema has no earlier one to come from
        run(f"systemctl stop socialpub && cp -p {DATA}/socialpub.db {copy}")
        with contextlib.closing(sqlite3.connect(copy)) as found, found:
            found.execute("UPDATE instance SET paused = 'restored'")  # as `former.copy` leaves it
        run(page.block("systemctl stop socialpub\ncd /var/lib/socialpub"))
        is_started("restored")
        run("socialpub resume --after-restore --config /etc/socialpub.toml")
        check_waits_until_resumed()
        publish(key, "After the way back")
        assert list_foreign_files() == []

        run(page.block("systemctl disable --now socialpub"))
        assert not Path("/var/lib/private/socialpub").exists()
        assert not Path("/usr/local/bin/socialpub").exists()
    page.end()
    print("executed:", *page.done, sep="\n  ")


def more(platforms: Any) -> str:
    """What the settings of the page lack so that the simulator stands for the platform."""
    bluesky = platforms["platforms"]["bluesky"]
    return (
        f"printf '[security]\\nallow_private_networks = true\\n[platforms.bluesky]\\napi_base = \"{bluesky}\"\\n' "
        ">> /etc/socialpub.toml\n"
    )


def status(block: str) -> None:
    """Both commands of the page end with 0 and say which settings they have read."""
    said = run(block)
    assert "Nothing needs attention." in said
    assert "read from /etc/socialpub.toml" in said
    assert "No problems found." in said


def check_waits_until_resumed() -> None:
    until = time.monotonic() + 60
    while running_services() is not None:
        assert time.monotonic() < until
        time.sleep(0.2)


if __name__ == "__main__":
    main()
    sys.exit()
