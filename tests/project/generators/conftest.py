"""Generators of clients, each installed once in a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.app_server import AppServer
from tests.support.foreign_tools import install_from_npm, install_from_pypi, need, run_tool

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def python_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtual environment with the generators that PyPI has."""
    return install_from_pypi(HERE / "requirements.txt", tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="session")
def jar(python_tools: Path) -> Path:
    """The archive of openapi-generator, which the package on PyPI carries."""
    (found,) = python_tools.parent.glob("lib/python3*/site-packages/openapi_generator_cli/openapi-generator.jar")
    return found


@pytest.fixture(scope="session")
def node_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generators that npm has in `node_modules`."""
    return install_from_npm(HERE, tmp_path_factory.mktemp("node"))


@pytest.fixture
def document(server: AppServer, tmp_path: Path) -> Path:
    file = tmp_path / "openapi.json"
    file.write_bytes(server.api().get("/openapi.json").content)
    return file


def generate(jar: Path, document: Path, generator: str, to: Path, options: Mapping[str, str], *more: str) -> None:
    """Run openapi-generator; AssertionError also where it renames a file because two have one name."""
    need("java")
    command = ["java", "-jar", jar, "generate", "-i", document, "-g", generator, "-o", to, *more]
    properties = ",".join(f"{name}={value}" for name, value in options.items())
    printed = run_tool([*command, "--additional-properties", properties], document.parent)
    assert "FILEPATH_COLLISION" not in printed
