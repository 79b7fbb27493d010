"""Generated OpenAPI clients compile, and make ten calls to a server.

The typescript-fetch client is only compiled. The tools come from PyPI and npm, in the versions of the files beside this
one, into a temporary folder.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image

from socialpub import platforms
from tests.project.generators.conftest import generate
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.foreign_tools import need, run_tool

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
VALIDATOR = Path("/usr/share/gocode/src/gopkg.in/validator.v2")
"""The one module that Go clients of openapi-generator need (Debian: golang-gopkg-validator.v2-dev)."""
JARS = [Path("/usr/share/java", name) for name in ("httpmime.jar", "geronimo-annotation-1.3-spec.jar")]
"""What Java clients need beyond the libraries in openapi-generator's own archive (Debian: libhttpmime-java,
libgeronimo-annotation-1.3-spec-java)."""
DAY_MS = 24 * 3600 * 1000

# --- The server --------------------------------------------------------------------------------------------------


Call = Callable[[Sequence[str | Path], Path], None]


@pytest.fixture
def called(server: AppServer, alice: Person, tmp_path: Path) -> Call:
    """Run a driver, and hold what it printed to what the server knows."""
    picture = tmp_path / "square.png"
    Image.new("RGB", (8, 8)).save(picture)
    now = server.clock.now_ms()
    moved = now // 1000 * 1000 + 2 * DAY_MS
    given = {
        "URL": server.url,
        "KEY": alice.key,
        "ACCOUNT": alice.bluesky,
        "PICTURE": str(picture),
        "PICTURE_BASE64": base64.b64encode(picture.read_bytes()).decode(),
        "AT": format_instant(now + DAY_MS),
        "MOVED": format_instant(moved),
        "RECEIVER": f"{server.url}/receiver",
    }

    def call(command: Sequence[str | Path], folder: Path) -> None:
        printed = dict(line.split(" ", 1) for line in run_tool(command, folder, **given).splitlines())
        (published,) = alice.api.get("/v1/posts?status=published").json()["data"]
        assert printed == {
            "platforms": ",".join(sorted(platforms.PLATFORMS)),
            "validate": "true 4",
            "publish": f"published {published['url']}",
            "media": "image 8 A square.",
            "schedule": "queued queued",
            "get": "queued Later. image 0",
            "patch": str(moved // 1000),
            "cancel": "canceled",
            "endpoint": "quota.warning whsec_",
            "events": "post.canceled,post.published,post.queued,post.rescheduled,post.validated,post.validated",
            "url": published["url"],
            "error": "400 preflight_failed bluesky.text.max_graphemes 0",
        }
        (canceled,) = alice.api.get("/v1/posts?status=canceled").json()["data"]
        assert (canceled["text"], canceled["scheduledAt"]) == ("Later.", format_instant(moved))
        (endpoint,) = alice.api.get("/v1/webhook-endpoints").json()["data"]
        assert endpoint["url"] == given["RECEIVER"]

    return call


# --- The generators ----------------------------------------------------------------------------------------------


def test_redocly_finds_no_error(node_tools: Path, document: Path) -> None:
    command = [node_tools / "node_modules" / ".bin" / "redocly", "lint", document, "--format=json"]
    found = json.loads(run_tool(command, node_tools, REDOCLY_TELEMETRY="off", REDOCLY_SUPPRESS_UPDATE_NOTICE="true"))
    assert [problem for problem in found["problems"] if problem["severity"] == "error"] == []
    assert found["totals"]["errors"] == 0


def test_the_python_client_of_openapi_generator(
    python_tools: Path, jar: Path, document: Path, tmp_path: Path, called: Call
) -> None:
    made = tmp_path / "python"
    generate(jar, document, "python", made, {"packageName": "client"})
    run_tool(
        [python_tools / "python", "-m", "compileall", "-q", made / "client"], made
    )  # its modules are imported late
    called([python_tools / "python", "-c", (DRIVERS / "openapi_generator.py").read_text()], made)


def test_the_go_client_of_openapi_generator(jar: Path, document: Path, tmp_path: Path, called: Call) -> None:
    need("go", files=[VALIDATOR])
    made, validator = tmp_path / "go", tmp_path / "validator"
    names = ("--git-host", "example.org", "--git-user-id", "socialpub", "--git-repo-id", "client")
    generate(jar, document, "go", made, {"packageName": "client"}, *names)
    shutil.copytree(VALIDATOR, validator)
    (validator / "go.mod").write_text("module gopkg.in/validator.v2\n")
    (made / "driver").mkdir()
    shutil.copy(DRIVERS / "main.go", made / "driver")
    go = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GONOSUMDB": "*", "GOCACHE": str(tmp_path / "cache")}
    # The language of the oldest Go that compiles it: the generator names a newer one than Debian has.
    run_tool(["go", "mod", "edit", "-go=1.18", f"-replace=gopkg.in/validator.v2={validator}"], made, **go)
    run_tool(["go", "vet", "."], made, **go)
    run_tool(["go", "build", "-o", tmp_path / "calls", "./driver"], made, **go)
    called([tmp_path / "calls"], tmp_path)


def test_the_java_client_of_openapi_generator(jar: Path, document: Path, tmp_path: Path, called: Call) -> None:
    need("javac", files=JARS)
    made, classes = tmp_path / "java", tmp_path / "classes"
    # An optional list is absent unless it is set: an empty one means something else to this API.
    options = {"library": "native", "openApiNullable": "false", "containerDefaultToNull": "true"}
    generate(jar, document, "java", made, options)
    path = os.pathsep.join(str(entry) for entry in (jar, *JARS))
    sources = [*(made / "src" / "main").rglob("*.java"), DRIVERS / "Calls.java"]
    run_tool(["javac", "-nowarn", "-proc:none", "-cp", path, "-d", classes, *sources], tmp_path)
    called(["java", "-cp", f"{path}{os.pathsep}{classes}", "Calls"], tmp_path)


def test_the_client_of_openapi_python_client(python_tools: Path, document: Path, tmp_path: Path, called: Call) -> None:
    command = [python_tools / "openapi-python-client", "generate", "--path", document, "--meta", "none"]
    path = f"{python_tools}:{os.environ['PATH']}"  # it formats what it makes
    printed = run_tool([*command, "--output-path", tmp_path / "client"], tmp_path, PATH=path)
    assert "Warning" not in printed
    run_tool([python_tools / "python", "-m", "compileall", "-q", tmp_path / "client"], tmp_path)
    called([python_tools / "python", "-c", (DRIVERS / "openapi_python_client.py").read_text()], tmp_path)


def test_the_types_of_openapi_typescript(node_tools: Path, document: Path, called: Call) -> None:
    run_tool([node_tools / "node_modules" / ".bin" / "openapi-typescript", document, "-o", "api.d.ts"], node_tools)
    shutil.copy(DRIVERS / "calls.mts", node_tools)
    strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom"]
    run_tool([node_tools / "node_modules" / ".bin" / "tsc", *strict, "calls.mts"], node_tools)
    called(["node", "calls.mjs"], node_tools)


def test_the_typescript_client_of_openapi_generator_compiles(
    node_tools: Path, jar: Path, document: Path, tmp_path: Path
) -> None:
    made = node_tools / "fetch"
    generate(jar, document, "typescript-fetch", made, {})
    strict = ["--strict", "--noEmit", "--target", "es2020", "--module", "commonjs", "--lib", "es2020,dom"]
    run_tool([node_tools / "node_modules" / ".bin" / "tsc", *strict, made / "index.ts"], node_tools)
