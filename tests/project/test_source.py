"""Source rules: platform names, clocks, random numbers, HTTP calls, rule ids."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from pydantic import BaseModel

from socialpub.base.error_codes import ERRORS
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.platforms import CATALOGUE, PLATFORMS
from tests.support.program_source import MODULES, list_nodes
from tests.support.table_checks import check_rows

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "socialpub"
OUTSIDE_PLATFORMS = [name for name in MODULES if not name.startswith(("platforms/", "simulator/"))]
OUTSIDE_BASE = [name for name in MODULES if not name.startswith("base/")]
IN_PLATFORMS = [name for name in MODULES if name.startswith("platforms/")]

SHAPES = [
    importlib.import_module(f"socialpub.domain.schemas.{path.stem}")
    for path in (PACKAGE / "domain/schemas").glob("*.py")
]
FIELDS = {
    field.alias or name
    for shape in SHAPES
    for model in vars(shape).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
    for name, field in model.model_fields.items()
}

# What the API itself spells out: two blocks of an account, the boards, one rule.
SPELT_OUT = {
    "scheduledAt.no_bluesky_reply",
    "pinterest.board.unknown",
    "/v1/accounts/<account_id:str>/pinterest/boards",
    "/v1/accounts/<account_id:str>/pinterest/default-board",
}
ACCOUNT_BLOCKS = {"domain/schemas/accounts.py": {"pinterest", "instagram", "PinterestBlock", "InstagramBlock"}}

SAMPLES = {"web/openapi/examples.py"}  # what the reference shows as examples; like a template, read by people only

CLOCKS_AND_CHANCE = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "os": {"urandom", "getrandom"},
    "uuid": {"uuid1", "uuid4", "uuid7"},
    "socket": {"create_connection", "create_server", "getaddrinfo", "gethostbyname", "socketpair", "socket"},
}
ONLY_IN_BASE = {"httpx", "random", "secrets", "urllib.request", "http.client", "requests", "ssl"}
ALLOWED_CALLS = {
    (
        "store/engine/locks.py",
        "time.monotonic",
    ),  # patience with another process's file lock: nothing is recorded from it
    ("store/engine/locks.py", "time.sleep"),
    ("simulator/server.py", "socket.create_server"),
}
HTTP_LIBRARIES = {"httpx", "httpcore", "h11"}  # of outbound HTTP: a successor is one folder away
ALLOWED_IMPORTS: set[tuple[str, str]] = set()


def _docstrings(nodes: list[ast.AST]) -> set[int]:
    statements = (node.value for node in nodes if isinstance(node, ast.Expr))
    return {id(value) for value in statements if isinstance(value, ast.Constant)}


def _words(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every identifier and every string that is no docstring, with its line."""
    docstrings = _docstrings(nodes)
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield line, node.value
        for field in ("id", "attr", "name", "arg", "module"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield line, word


@functools.cache
def names_platform(word: str) -> bool:
    """Whether a word names a platform; `threads` by itself is also what a program has, so only its strings count."""
    spoken = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower()
    parts = re.split(r"[^a-z]+", spoken)
    if any(name in parts for name in PLATFORMS if name != "threads"):
        return True
    return word == "Threads" or re.fullmatch(r"(platforms\.)?threads\.\w.*", word) is not None


def test_no_module_outside_platforms_and_simulator_names_a_platform() -> None:
    def check(module: str) -> None:
        allowed = SPELT_OUT | ACCOUNT_BLOCKS.get(module, set())
        named = [
            (line, word) for line, word in _words(list_nodes(module)) if names_platform(word) and word not in allowed
        ]
        assert named == []

    check_rows([name for name in OUTSIDE_PLATFORMS if name not in SAMPLES], check)


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("bluesky", True),
        ("post_to_facebook", True),
        ("PinterestBlock", True),
        ("scheduledAt.no_bluesky_reply", True),
        ("https://api.twitter.com", True),
        ("threads.text.max_chars", True),
        ("Threads", True),
        ("call_soon_threadsafe", False),
        ("threads", False),
        ("linked", False),
    ],
)
def test_a_name_is_found_in_identifiers_addresses_and_ids(word: str, named: bool) -> None:
    assert names_platform(word) is named


def _calls(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        owner_name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if node.func.attr in CLOCKS_AND_CHANCE.get(owner_name, ()):
            yield node.lineno, f"{owner_name}.{node.func.attr}"


def _imports(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_time_chance_and_sockets_come_from_base() -> None:
    def check(module: str) -> None:
        found = [(line, call) for line, call in _calls(list_nodes(module)) if (module, call) not in ALLOWED_CALLS]
        assert found == []

    check_rows(OUTSIDE_BASE, check)


def test_only_base_makes_http_calls_or_draws_random_numbers() -> None:
    def check(module: str) -> None:
        found = [
            (line, name)
            for line, name in _imports(list_nodes(module))
            if name in ONLY_IN_BASE and (module, name) not in ALLOWED_IMPORTS
        ]
        assert found == []

    check_rows(OUTSIDE_BASE, check)


def test_one_folder_knows_the_libraries_of_outbound_http() -> None:
    def check(module: str) -> None:
        assert {name for _, name in _imports(list_nodes(module))} & HTTP_LIBRARIES == set()

    others = {"base/smtp.py"}
    check_rows([name for name in MODULES if not name.startswith("base/http/") and name not in others], check)


def test_nothing_private_of_them_is_touched() -> None:
    def check(module: str) -> None:
        imported = {name for _, name in _imports(list_nodes(module))}
        assert "h11" not in imported
        assert not any(name.partition(".")[0] in HTTP_LIBRARIES and "._" in name for name in imported)
        owners = [ast.unparse(node) for node in list_nodes(module) if isinstance(node, ast.Attribute)]
        assert not [owner for owner in owners if re.match(r"(httpx|httpcore)\..*\b_", owner)]

    check_rows([name for name in MODULES if name.startswith("base/http/")], check)


def test_clocks_are_not_imported_under_a_bare_name() -> None:
    def check(module: str) -> None:
        bare = {f"{owner}.{name}" for owner in ("time", "os", "uuid", "socket") for name in CLOCKS_AND_CHANCE[owner]}
        assert [name for _, name in _imports(list_nodes(module)) if name in bare - {"socket.socket"}] == []

    check_rows(OUTSIDE_BASE, check)


def _literal(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _calls_of(nodes: list[ast.AST], *names: str) -> Iterator[ast.Call]:
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None)) in names:
            yield node


def test_every_error_code_and_service_rule_that_is_raised_has_a_row() -> None:
    def check(module: str) -> None:
        missing = []
        for call in _calls_of(list_nodes(module), "ApiError"):
            code = _literal(call.args[0] if call.args else None)
            missing += [(call.lineno, code)] if code is not None and code not in ERRORS else []
            for rule in (_literal(keyword.value) for keyword in call.keywords if keyword.arg == "rule"):
                # What is wrong with one field of a request has the field's path as its rule.
                known = SERVICE_RULES.keys() | CATALOGUE.keys() | (FIELDS if code == "validation_failed" else set())
                missing += [(call.lineno, rule)] if rule is not None and rule not in known else []
        for call in _calls_of(list_nodes(module), "rule_error"):
            rule = _literal(call.args[0] if call.args else None)
            if rule is not None and not module.startswith("simulator/") and rule not in SERVICE_RULES:
                missing.append((call.lineno, rule))
        assert missing == []

    check_rows(MODULES, check)


def test_what_is_answered_is_made_where_the_type_checker_knows_its_keys() -> None:
    """A dict that is handed over as it is written may have any keys: its shape makes it, or a function that says so."""

    def check(module: str) -> None:
        bare = [call.lineno for call in _calls_of(list_nodes(module), "HandlerResponse", "Done") if _is_bare(call)]
        assert bare == []

    check_rows([name for name in MODULES if name.startswith(("web/", "domain/"))], check)


def _is_bare(call: ast.Call) -> bool:
    body = call.args[0] if call.args else None
    return isinstance(body, ast.Dict) and bool(body.keys)


def test_every_rule_id_in_a_connector_has_a_row() -> None:
    def check(module: str) -> None:
        own = next((name for name in PLATFORMS if Path(module).stem.split("_")[0] == name), None)
        ids = re.compile(rf"{own}\.[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
        used = {word for _, word in _words(list_nodes(module)) if own and ids.fullmatch(word)}
        assert {rule for rule in used if rule not in CATALOGUE} == set()

    check_rows(IN_PLATFORMS, check)


def test_every_service_rule_has_a_code_with_a_row() -> None:
    assert {row.code for row in SERVICE_RULES.values()} <= set(ERRORS)
    assert all(name == row.rule for name, row in SERVICE_RULES.items())


def test_no_service_rule_has_the_id_of_a_platform_rule() -> None:
    both = {"pinterest.board.unknown"}  # said of a default board (400) and by the platform itself (upstream)
    assert SERVICE_RULES.keys() & CATALOGUE.keys() == both


def test_a_platform_imports_nothing_of_another_platform() -> None:
    def check(module: str) -> None:
        imported = {
            name.split(".")[2] for _, name in _imports(list_nodes(module)) if name.startswith("socialpub.platforms.")
        }
        assert imported & (PLATFORMS.keys() - {Path(module).parts[1]}) == set()

    check_rows([name for name in IN_PLATFORMS if name != "platforms/__init__.py"], check)


def test_platforms_holds_a_folder_for_each_and_shared_code() -> None:
    rooms = {path.parent.name for path in (PACKAGE / "platforms").glob("*/__init__.py")}
    assert rooms - {"contract", "kit", "meta"} == set(PLATFORMS)
    assert [path.name for path in (PACKAGE / "platforms").glob("*.py")] == ["__init__.py"]


FOLDERS_MAX = 15


@pytest.mark.parametrize("floor", ["domain", "platforms"])
def test_no_room_has_more_than_fifteen_folders(floor: str) -> None:
    rooms = [path.parent.name for path in (PACKAGE / floor).glob("*/__init__.py")]
    assert 1 < len(rooms) <= FOLDERS_MAX, rooms


# Parts of a declared dependency that it documents as its own.
CLIENT = "socialpub-client"  # ours: no package of the registry
DISTRIBUTIONS = {
    "opentelemetry": "opentelemetry-sdk",
    "playhouse": "peewee",
    "PIL": "pillow",
    "socialpub_client": CLIENT,
    "socialpub_start": CLIENT,
}
"""The declared distribution of an import that several distributions share, or that is called otherwise."""
OTLP = "opentelemetry-exporter-otlp-proto-http"  # imported by a name that it shares with the sdk
READ_BY_PYTHON = {"tzdata"}  # by `zoneinfo`, where the machine has no time zones of its own (in a container)


def _third_parties() -> set[str]:
    found = {name.partition(".")[0] for module in MODULES for _, name in _imports(list_nodes(module))}
    return found - set(sys.stdlib_module_names) - {"socialpub", ""}


def test_imported_packages_are_declared_and_the_reverse() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["s3"], *extras["tracing"]]
    declared = {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in named} - {OTLP}
    distributions = packages_distributions()
    imported = {
        DISTRIBUTIONS.get(name) or distributions[name][0].lower().replace("_", "-") for name in _third_parties()
    }
    assert imported | READ_BY_PYTHON == declared


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_hashes_and_every_declared_one_is_locked(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    client = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["dependencies"] + client["dependencies"]
    declared += project["optional-dependencies"]["dev"] if "dev" in name else []
    entries = re.split(r"\n(?=\S)", (ROOT / name).read_text(encoding="utf-8"))
    locked = {entry.partition("==")[0].lower(): entry for entry in entries if not entry.startswith("#")}
    assert {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in declared} - {CLIENT} <= set(locked)
    assert all("--hash=sha256:" in entry for entry in locked.values())


def test_no_test_imports_from_the_file_of_another_test() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in re.findall(r"^\s*(?:from|import) tests\.\S*\btest_\w+.*", path.read_text(encoding="utf-8"), re.M)
    ]
    assert found == []


def test_names_of_tests_are_short() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^\s*(?:async )?def (test_\w{65,})", path.read_text(encoding="utf-8"), re.M)
    ]
    assert found == []
