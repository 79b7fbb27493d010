"""Example of GitHub Actions: its shell steps, run as they stand, against the application."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.conftest import ClientWorld

WORKFLOW = Path(__file__).parents[2] / "docs" / "calendar" / "workflow.yml"
PROGRAM = "from socialpub_client.commands.cli import main; import sys; sys.exit(main(None, []))"
GH = """#!/bin/sh
echo "gh $*" >> gh.log
case "$1 $2" in
  "pr comment") cp comment.md said.md ;;
  "run download") cp ../plan/plan.json . ;;
  *) echo 1 ;;
esac
"""
CALENDAR = """\
calendar: merged
zone: Europe/Berlin
posts:
  - id: opening
    at: {year}-06-01 09:00
    to: bluesky
    text: {text}
"""
Steps = Callable[[str, str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def steps(world: ClientWorld, tmp_path: Path) -> Steps:
    """Run the shell steps of a job in a checkout of its own, with the key of a person."""
    programs = tmp_path / "bin"
    programs.mkdir()
    write_program(programs / "gh", GH)
    write_program(programs / "pip", "#!/bin/sh\n")
    write_program(programs / "socialpub", f"#!/bin/sh\nexec {sys.executable} -c '{PROGRAM}' \"$@\"\n")
    workflow: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())

    def run(job: str, key: str) -> subprocess.CompletedProcess[str]:
        checkout = tmp_path / job
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "SOCIALPUB_URL": world.server.url,
            "SOCIALPUB_KEY": key,
            "PULL_REQUEST": "7",
            "GITHUB_SHA": "abc",
            "HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        for step in workflow["jobs"][job]["steps"]:
            if "run" in step:
                ended = subprocess.run(
                    ["bash", "-e", "-c", step["run"]], cwd=checkout, env=environment, capture_output=True, text=True
                )
        return ended

    return run


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.slow
def test_the_merge_applies_the_plan_of_the_comment(world: ClientWorld, steps: Steps, tmp_path: Path) -> None:
    year = datetime.now(UTC).year + 1
    for job in ("plan", "apply"):
        (tmp_path / job / "calendar").mkdir(parents=True)
    file = tmp_path / "plan" / "calendar" / "spring.yaml"
    planning = world.server.limited(world.alice, scopes=["posts:plan", "accounts:read", "media"])

    file.write_text(CALENDAR.format(year=year, text="x" * 400))
    assert steps("plan", planning.key).returncode == 3
    assert "bluesky.text.max_graphemes" in (tmp_path / "plan" / "said.md").read_text()

    file.write_text(CALENDAR.format(year=year, text="We open."))
    planned = steps("plan", planning.key)
    assert planned.returncode == 0, planned.stderr
    said = (tmp_path / "plan" / "said.md").read_text()
    assert said.startswith(f"```\n+ opening  {year}-06-01 09:00 Europe/Berlin  bluesky\n")
    assert 'bluesky: "We open."' in said
    posts = world.plain().posts
    assert not list(posts.list(external_id_prefix="merged/"))
    assert steps("apply", planning.key).returncode == 4  # that key publishes nothing

    applied = steps("apply", world.alice.key)
    assert applied.returncode == 0, applied.stderr
    (post,) = posts.list(external_id_prefix="merged/")
    assert (post.text, post.status) == ("We open.", "queued")
    assert "gh run download 1 --name plan" in (tmp_path / "apply" / "gh.log").read_text()

    posts.edit(post.id, text="edited meanwhile")
    assert steps("apply", world.alice.key).returncode == 3
    assert posts.get(post.id).text == "edited meanwhile"
