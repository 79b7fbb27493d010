"""Runs of `socialpub apply` that are killed or cut: then exactly the posts of the file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from socialpub.simulator.server import SimulatorThread
from socialpub_client import Socialpub
from socialpub_client.apply.command import ApplyRequest
from tests.support.app_server import UNLIMITED, running_server
from tests.support.apply_runs import run_apply
from tests.support.client_cuts import FAULTS, CuttingTransport
from tests.support.media_files import picture
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import configured_count

KILLS = configured_count("apply_kills", 50)
EXAMPLES = configured_count("apply_examples", 20)
SEED = 20261126
YEAR = datetime.now(UTC).year + 2
COMMAND = "from socialpub_client.commands.cli import main; import sys; sys.exit(main(None, []))"


@dataclass
class CalendarWorld:
    """A server, a calendar's file and what it should come to."""

    folder: Path
    url: str
    key: str
    name: str
    wanted: dict[str, tuple[str, int]] = field(default_factory=dict)  # text and day, by id

    @property
    def file(self) -> Path:
        return self.folder / "calendar.yaml"

    def write(self) -> None:
        """Write the file."""
        posts = "".join(
            f"  - {{id: {id}, at: {YEAR}-06-{day:02} 09:00, text: {text}, media: [{{file: door.jpg}}]}}\n"
            for id, (text, day) in self.wanted.items()
        )
        (self.folder / "door.jpg").write_bytes(picture())
        head = f"calendar: {self.name}\nzone: Europe/Berlin\ndefaults: {{ to: bluesky }}\nposts:\n"
        self.file.write_text(head + (posts or "  []\n"))

    def client(self, *faults: str | None) -> Socialpub:
        """A client whose first requests meet these faults and are not made again."""
        transport = CuttingTransport(iter(faults))
        return Socialpub(self.url, self.key, transport=transport, retries=0 if faults else 4)

    def apply(self, *faults: str | None) -> tuple[int, int]:
        """Apply the file; return the exit code and the number of writes."""
        with self.client(*faults) as sp:
            transport = sp._transport
            assert isinstance(transport, CuttingTransport)
            code = run_apply(sp, ApplyRequest([self.file], prune=True))
            return code, sum(each.method != "GET" for each in transport.requests)

    def check(self) -> None:
        """The posts at the server are the file's, each once, and its file is there once."""
        with self.client() as sp:
            posts = [post for post in sp.posts.list(external_id_prefix=f"{self.name}/") if post.status != "canceled"]
            found = sorted((str(each.external_id), each.text, str(each.scheduled_at)) for each in posts)
            files = [each.sha256 for each in sp.media.list()]
        assert found == sorted(
            (f"{self.name}/{id}", text, f"{YEAR}-06-{day:02} 07:00:00+00:00") for id, (text, day) in self.wanted.items()
        )
        assert len(files) == len(set(files)) <= 1


@pytest.fixture
def calendar(tmp_path: Path, lab_thread: SimulatorThread) -> Iterator[CalendarWorld]:
    lab_thread.lab.reset()
    home = tmp_path / "server"
    home.mkdir()
    with running_server(home, lab_thread, limits=UNLIMITED) as server:
        alice = server.connected_person("Alice")
        yield CalendarWorld(tmp_path, server.url, alice.key, "spring")


@pytest.mark.slow
def test_killed_runs_end_as_the_file_says(calendar: CalendarWorld, tell: ReportLine) -> None:
    dice, killed = random.Random(SEED), 0
    command = [sys.executable, "-c", COMMAND, "apply", str(calendar.file), "--prune", "--url", calendar.url]
    environment = os.environ | {"SOCIALPUB_KEY": calendar.key, "PYTHONPATH": os.pathsep.join(sys.path)}
    for number in range(KILLS):
        calendar.wanted = {f"p{each}": (f"text {number} {each}", 1 + dice.randrange(28)) for each in range(5)}
        calendar.write()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            for _ in range(dice.randrange(5)):  # after so many lines of output, and a moment
                process.stdout.readline()
            try:
                process.wait(dice.random() * 0.1)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += 1
        codes = [calendar.apply()[0]]
        if codes == [5]:  # the last request of the killed run arrived while this one planned: it was seen (412)
            codes.append(calendar.apply()[0])
        assert codes[-1] == 0, codes
        calendar.check()
        assert calendar.apply()[1] == 0, "a second run writes nothing"
    tell(f"{KILLS} runs of apply, {killed} killed, seed {SEED}: the file's posts, once")


@pytest.mark.slow
def test_edits_runs_and_cuts_end_as_the_file_says(calendar: CalendarWorld) -> None:
    numbers = iter(range(1_000_000))

    class CalendarMachine(RuleBasedStateMachine):
        """Edit the file, run it with cut requests, compare."""

        @initialize()
        def begin(self) -> None:
            calendar.name, calendar.wanted = f"calendar-{next(numbers)}", {}
            calendar.write()

        @rule(id=st.sampled_from("abcd"), text=st.sampled_from(("one", "two")), day=st.integers(1, 28))
        def edit(self, id: str, text: str, day: int) -> None:
            calendar.wanted[id] = (f"{text} {id}", day)
            calendar.write()

        @rule(id=st.sampled_from("abcd"))
        def remove(self, id: str) -> None:
            calendar.wanted.pop(id, None)
            calendar.write()

        @rule(at=st.integers(0, 20), fault=st.sampled_from(FAULTS))
        def run_cut(self, at: int, fault: str) -> None:
            calendar.apply(*[None] * at, fault)

        @rule()
        def run_whole(self) -> None:
            assert calendar.apply()[0] == 0
            calendar.check()
            assert calendar.apply()[1] == 0

        @invariant()
        def no_post_is_doubled(self) -> None:
            with calendar.client() as sp:
                posts = list(sp.posts.list(external_id_prefix=f"{calendar.name}/", status="queued"))
            assert len(posts) == len({post.external_id for post in posts})

        def teardown(self) -> None:
            self.run_whole()

    run_state_machine_as_test(
        CalendarMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=12, deadline=None)
    )
