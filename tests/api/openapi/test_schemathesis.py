"""schemathesis over /openapi.json finds no 5xx and no undocumented response."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.app_server import UNLIMITED, ApiClient, AppServer, Person
from tests.support.openapi_judge import sign_in

SEED = 20261120
SECONDS = 1800
# The tool's own list, and 428, with which a write that needs `If-Match` answers.
CONFIG = "[checks.missing_required_header]\nexpected-statuses = [400, 401, 403, 406, 415, 422, 428]\n"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
)


@pytest.fixture
def open_server(make_server: Callable[..., AppServer]) -> AppServer:
    """A server that does not slow anybody down."""
    return make_server(limits=UNLIMITED)


@pytest.fixture
def caller(open_server: AppServer) -> Person:
    return open_server.connected_person("Alice")


def strict(api: ApiClient) -> dict[str, Any]:
    """The document as a strict reader takes it: an answer has no status but those that are named.

    (What fields it may have, test_openapi_answers holds to the letter.)
    """
    document: dict[str, Any] = api.get("/openapi.json").json()
    for operation in operations(document):
        del operation["responses"]["default"]
    return document


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def signed_in(document: dict[str, Any]) -> list[str]:
    """The ids of the operations for signed-in people only, which from now on ask for nothing more: the tool would
    leave out a cookie that it is told to send always, and wonder why that is accepted."""
    found = [entry for entry in operations(document) if entry["security"] == [{"session": [], "csrf": []}]]
    found += [entry for entry in operations(document) if entry["security"] == [{"session": []}]]
    for operation in found:
        operation["security"] = []
    return [operation["operationId"] for operation in found]


def schemathesis(
    folder: Path, document: dict[str, Any], url: str, headers: dict[str, str], each: int, only: Sequence[str] = ()
) -> str:
    """What the run printed; AssertionError when it found a difference.

    `each`: random cases an operation. `only`: the operations to try; none: all.
    """
    document["components"]["parameters"]["prefer"]["example"] = "wait=1"  # of 10 s, tried again and again
    file = folder / "openapi.json"
    file.write_text(json.dumps(document))
    (folder / "schemathesis.toml").write_text(CONFIG)
    options = {
        "url": url,
        "checks": ",".join(CHECKS),
        "phases": "examples,coverage,fuzzing,stateful",
        "mode": "all",
        "max-examples": each,
        "seed": SEED,
        "generation-database": "none",
        "request-timeout": 30,  # a test of a channel or endpoint answers after its receiver's timeout of 10 s
    }
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(file), "--continue-on-failure", "--no-color"]
    command += [f"--{name}={value}" for name, value in options.items()]
    command += [f"--header={name}: {value}" for name, value in headers.items()]
    command += [f"--include-operation-id={name}" for name in only]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    print(f"seed {SEED}", *(line[:300] for line in (run.stdout + run.stderr).splitlines()), sep="\n")
    assert run.returncode == 0, "schemathesis found a difference between the server and its document (see above)"
    return run.stdout


def passed(printed: str) -> int:
    counted = re.search(r"(\d+) generated, (\d+) passed", printed)
    assert counted
    assert counted[1] == counted[2]
    return int(counted[1])


@pytest.mark.slow
def test_schemathesis_with_a_key_finds_no_difference(open_server: AppServer, caller: Person, tmp_path: Path) -> None:
    document, headers = strict(open_server.api()), {"Authorization": f"Bearer {caller.key}"}
    assert passed(schemathesis(tmp_path, document, open_server.url, headers, 60)) >= 2000


@pytest.mark.slow
def test_schemathesis_signed_in_finds_no_difference(open_server: AppServer, caller: Person, tmp_path: Path) -> None:
    document, headers = strict(open_server.api()), sign_in(open_server, caller)
    only = signed_in(document)
    assert passed(schemathesis(tmp_path, document, open_server.url, headers, 30, only)) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("lie", ["type", "required", "status"])
def test_schemathesis_would_find_a_difference(open_server: AppServer, caller: Person, tmp_path: Path, lie: str) -> None:
    document = strict(open_server.api())
    operation = document["paths"]["/v1/platforms"]["get"]
    if lie == "type":
        document["components"]["schemas"]["TextLimit"]["properties"]["unit"] = {"type": "integer"}
    elif lie == "required":
        document["components"]["schemas"]["TextLimit"]["required"].append("colour")
    else:
        operation["responses"]["202"] = operation["responses"].pop("200")
    document["paths"] = {"/v1/platforms": {"get": operation}}
    with pytest.raises(AssertionError, match="schemathesis found a difference"):
        schemathesis(tmp_path, document, open_server.url, {}, 5)
