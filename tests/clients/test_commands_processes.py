"""Commands over the API as processes: closed and full pipes, SIGKILL at any moment."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from socialpub_client.commands import command_table, exit_codes
from socialpub_client.commands.click_types import ApiCommand
from tests.clients.conftest import PROGRAM, ClientWorld
from tests.support.interruption import interrupt
from tests.support.media_files import picture
from tests.support.media_uploads import wait_until
from tests.support.reporting import ReportLine

KILLS = int(os.environ.get("SOAK_POST_KILLS", "100"))
NOTHING = "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"
LINES = {
    "login": (),
    "whoami": (),
    "logout": (),
    "post": ("Hello", "--to", "bluesky"),
    "posts list": (),
    "posts show": (NOTHING,),
    "posts edit": (NOTHING, "--text", "-"),
    "posts move": (NOTHING, "--at", "2027-01-01T09:30Z"),
    "posts cancel": (NOTHING,),
    "posts retry": (NOTHING,),
    "posts settle": (NOTHING, "--published"),
    "media upload": ("door.png",),
    "media list": (),
    "media show": ("med_0000000000000000000000",),
    "media delete": ("med_0000000000000000000000",),
    "events": (),
    "accounts list": (),
    "accounts show": ("@Alice",),
    "accounts boards": ("@Alice",),
    "webhooks list": (),
    "webhooks show": ("whe_0000000000000000000000",),
    "webhooks create": ("https://example.org/hook",),
    "webhooks change": ("whe_0000000000000000000000", "--inactive"),
    "webhooks delete": ("whe_0000000000000000000000",),
    "webhooks rotate": ("whe_0000000000000000000000",),
    "webhooks deliveries": (),
    "webhooks redeliver": ("dlv_0000000000000000000000",),
    "apply": ("calendar.yaml",),
    "mcp": (),
    "api": ("GET", "/v1/me"),
}
ASKING = {"login", "posts edit", "posts cancel", "media delete", "webhooks delete", "mcp"}  # need an input, or --yes
REDIRECTIONS = {
    "closed pipe": "| true",
    "full pipe": "| { sleep 0.5; cat >/dev/null; }",
    "full disk": ">/dev/full",
    "closed": ">&-",
}
CALENDAR = """
calendar: {}
defaults: {{ to: bluesky }}
posts:
  - {{ id: one, at: 2099-06-01 09:00Z, text: one }}
  - {{ id: two, at: 2099-06-02 09:00Z, text: two }}
"""


def names(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from names(command, f"{before}{name} ")
        elif isinstance(command, ApiCommand):
            yield f"{before}{name}"


def test_every_command_has_a_line() -> None:
    assert set(names(command_table.build_root([]))) == set(LINES)


@pytest.mark.slow
def test_a_post_goes_out_while_its_output_waits_in_a_full_pipe(
    world: ClientWorld, environment: dict[str, str], text: Callable[[], str]
) -> None:
    said = text()
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
    line = [PROGRAM, "post", said, "--to", "bluesky"]
    with subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=writer) as process:
        os.close(writer)
        wait_until(lambda: said in world.texts(), 60)
        with os.fdopen(reader, "rb") as pipe:
            assert b"published" in pipe.read()
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("output", REDIRECTIONS)
def test_every_command_ends_without_input_and_output(
    world: ClientWorld, environment: dict[str, str], tmp_path: Path, output: str
) -> None:
    """It neither waits for input nor shows a traceback, and what was done decides the code."""
    calendar = output.replace(" ", "-")
    (tmp_path / "door.png").write_bytes(picture("PNG"))
    (tmp_path / "calendar.yaml").write_text(CALENDAR.format(calendar))
    fill = "head -c 65536 /dev/zero;" if output == "full pipe" else ""  # as much as a pipe holds
    for name, line in LINES.items():
        words = subprocess.list2cmdline([str(PROGRAM), *name.split(), *line])
        script = f"{{ {fill} {words}; echo $? >code; }} <&- {REDIRECTIONS[output]}"
        ended = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, timeout=60
        )
        code = int((tmp_path / "code").read_text())
        assert "Traceback" not in ended.stderr, name
        assert "Exception ignored" not in ended.stderr, name
        if name in ASKING:
            assert code in (2, 4), (name, ended.stderr)
        elif name in ("post", "apply"):
            assert code == 0, ended.stderr
        else:
            assert code in (0, 1, 2, 3), (name, ended.stderr)
    assert len(list(world.plain().posts.list(external_id_prefix=f"{calendar}/"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "code"), [("| true", 0), (">/dev/full", 1), (">&-", 0)], ids=["closed pipe", "full disk", "closed"]
)
def test_help_that_cannot_be_printed_ends_as_other_output(output: str, code: int, tmp_path: Path) -> None:
    for line in ("--help", "--version", "post --help", "help exit-codes"):
        script = f"{{ {PROGRAM} {line}; echo $? >code; }} {output}"
        ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=60)
        assert (int((tmp_path / "code").read_text()), "Traceback" in ended.stderr) == (code, False), ended.stderr


@pytest.mark.parametrize("errors", [">/dev/full", ">&-"])
def test_a_usage_error_needs_no_standard_error(errors: str) -> None:
    line = ["bash", "-c", f"{PROGRAM} post --nonsense 2{errors}"]
    ended = subprocess.run(line, stdout=subprocess.PIPE, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")


@pytest.mark.slow
def test_a_killed_post_with_an_external_id_is_one_post(
    world: ClientWorld, environment: dict[str, str], tell: ReportLine
) -> None:
    """`until socialpub post … --external-id x; do :; done`, with SIGKILL at a random moment of a run."""
    seed = random.SystemRandom().randrange(1 << 32)
    chance, killed, arrived, whole = random.Random(seed), 0, 0, 1.0
    for number in range(KILLS):
        said = f"killed {seed} {number}"
        line = [PROGRAM, "post", said, "--to", "bluesky", "--external-id", f"kill/{seed}/{number}"]
        process = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0, whole))
        except subprocess.TimeoutExpired:
            process.kill()
            killed += 1
        process.wait()
        arrived += said in world.texts()
        tries, begun = 0, time.monotonic()
        while subprocess.run(line, env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
            tries += 1
            assert tries < 20
        whole = time.monotonic() - begun
        assert world.texts().count(said) == 1
    tell(f"seed {seed}: {KILLS} posts, {killed} runs killed, {arrived} after they had arrived: one post each")
    assert killed or KILLS < 5


def is_asleep(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "S"


WRITES = {
    "post": ("x", "--to", "bluesky"),
    "posts cancel": (NOTHING, "--yes"),
    "media upload": ("door.png",),
    "api": ("POST", "/v1/posts"),
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", WRITES)
def test_a_signal_during_a_write_prints_the_key_to_repeat_it_with(
    environment: dict[str, str], tmp_path: Path, number: int, name: str
) -> None:
    """The server has the whole request, and does not answer."""
    (tmp_path / "door.png").write_bytes(picture("PNG"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = [PROGRAM, *name.split(), *WRITES[name], "--json", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}"]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(line, env=environment, cwd=tmp_path, **streams) as command:
            connection, _ = silent.accept()
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536)
            wait_until(lambda: is_asleep(command.pid))  # Python notices no signal just before it blocks
            interrupt(lambda: command.send_signal(number), command.wait)
            out, err = command.communicate()
            connection.close()
    sent = re.search(rb"(?i)idempotency-key: (\S+)", request)
    key = json.loads(out)["error"]["idempotencyKey"]
    assert sent is not None
    assert sent[1].decode() == key
    assert (command.returncode, f"--idempotency-key {key}" in err, "Traceback" in err) == (6, True, False), err


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ([PROGRAM], "socialpub_client"),
        ([PROGRAM], "click"),
        ([PROGRAM], "socialpub"),
        ([sys.executable, "-m", "socialpub"], "ctypes"),
        ([sys.executable, "-m", "socialpub"], "click"),
    ],
)
def test_ctrl_c_while_packages_are_imported_shows_no_traceback(
    tmp_path: Path, program: list[str], package: str
) -> None:
    """A package that is imported first, and slowly, stands in for a slow disk."""
    started = tmp_path / "started"
    (tmp_path / f"{package}.py").write_text(f"open({str(started)!r}, 'w').close()\nimport time\ntime.sleep(600)\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    line = [*program, "whoami"]
    with subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as command:
        wait_until(started.exists)
        interrupt(lambda: command.send_signal(signal.SIGINT), command.wait)
        assert command.stderr is not None
        shown = command.stderr.read()
    assert (command.returncode in (-signal.SIGINT, exit_codes.INTERRUPTED), shown) == (True, "")
