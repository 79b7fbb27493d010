"""Modules that a start imports: unused packages stay out of the process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from socialpub.base.system import pyinstaller

PROGRAM = """
import gc, json, sys
from socialpub.commands import cli, serve
from socialpub_client.commands import process_exit
told = {}
def begin(options):
    told.update(collects=gc.isenabled(), frozen=gc.get_freeze_count(), modules=list(sys.modules))
serve.serve = begin
process_exit.exit_now = lambda code: None
sys.argv = ["socialpub", "serve"]
cli.program()

import pydantic.plugin._loader as loader
told.update(ujson=str(sys.modules["ujson"]), dumps=sys.modules["sanic.helpers"].json_dumps.func.__module__)
told.update(plugins=list(loader._plugins or ()))
from socialpub.domain.schemas.common import RequestModel
from socialpub.platforms.kit.options import PlatformOptions
def under(kind):
    return [each for below in kind.__subclasses__() for each in (below, *under(below))]
kinds = under(RequestModel) + under(PlatformOptions)
told.update(models=len(kinds), made=[kind.__name__ for kind in kinds if kind.__pydantic_complete__])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def begun() -> dict[str, Any]:
    """Of `socialpub serve` when it begins: what it has imported, and how; what comes last looks at more modules."""
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return dict(json.loads(made.stdout.splitlines()[-1]))


@pytest.mark.matrix
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
def test_a_server_does_without(package: str, begun: dict[str, Any]) -> None:
    assert not [name for name in begun["modules"] if name == package or name.startswith(f"{package}.")]


def test_sanic_finds_no_second_parser_of_json(begun: dict[str, Any]) -> None:
    assert (begun["ujson"], begun["dumps"]) == ("None", "json")


def test_the_collector_does_not_look_through_what_was_imported(begun: dict[str, Any]) -> None:
    assert begun["collects"] is True
    assert begun["frozen"] > 50_000


def test_pydantic_does_not_look_for_plugins(begun: dict[str, Any]) -> None:
    assert begun["plugins"] == []


def test_models_of_requests_are_made_by_whoever_asks(begun: dict[str, Any]) -> None:
    """Few are ever asked for, and all of them together take a twentieth of a start."""
    assert begun["models"] > 40
    assert begun["made"] == []
