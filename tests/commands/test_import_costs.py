"""Modules that a start imports: unused packages stay out of the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from socialpub.base.system import pyinstaller

PROGRAM = """
import gc, sys
from socialpub.commands import cli, serve
from socialpub_client.commands import process_exit
serve.serve = lambda options: print(gc.isenabled(), gc.get_freeze_count(), *sys.modules)
process_exit.exit_now = lambda code: None
sys.argv = ["socialpub", "serve"]
cli.program()
"""


@pytest.fixture(scope="module")
def begun() -> list[str]:
    """Of `socialpub serve` when it begins: whether it collects, how much it leaves out of that, and its modules."""
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return made.stdout.split()


@pytest.mark.parametrize(
    "package",
    [
        "socialpub.simulator",
        "socialpub.commands.demo",
        "socialpub.base.smtp",
        "opentelemetry",
        "minio",
        "segno",
        "aiosmtplib",
        "email.headerregistry",
        "tzdata",
        "jinja2",
        "tracerite",
        "html5tagger",
        "websockets",
        "regex",
        "argon2",
        "pyotp",
        "click.shell_completion",
        *pyinstaller.LAZY_PACKAGES,
    ],
)
def test_a_server_does_without(package: str, begun: list[str]) -> None:
    assert not [name for name in begun if name == package or name.startswith(f"{package}.")]


def test_sanic_finds_no_second_parser_of_json(begun: list[str]) -> None:
    code = PROGRAM + "print(sys.modules['ujson'], sys.modules['sanic.helpers'].json_dumps.func.__module__)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines()[-1] == "None json"


def test_the_collector_does_not_look_through_what_was_imported(begun: list[str]) -> None:
    assert begun[0] == "True"
    assert int(begun[1]) > 50_000


def test_pydantic_does_not_look_for_plugins() -> None:
    code = PROGRAM + "import pydantic.plugin._loader as loader; print(loader._plugins)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines()[-1] in ("{}", "None")


def test_models_of_requests_are_made_by_whoever_asks() -> None:
    """Few are ever asked for, and all of them together take a twentieth of a start."""
    code = PROGRAM + (
        "from socialpub.domain.schemas.common import RequestModel\n"
        "from socialpub.platforms.kit.options import PlatformOptions\n"
        "def under(kind):\n"
        "    return [each for below in kind.__subclasses__() for each in (below, *under(below))]\n"
        "kinds = under(RequestModel) + under(PlatformOptions)\n"
        "print(len(kinds), *[kind.__name__ for kind in kinds if kind.__pydantic_complete__])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, *complete = made.stdout.splitlines()[-1].split()
    assert int(count) > 40
    assert complete == []
