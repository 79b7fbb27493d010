"""Foreign JSON is parsed by one function, which refuses numbers that are not finite."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base import json_codec
from socialpub.base.http import UpstreamResponse
from tests.support.program_source import PACKAGE, find_modules, parse_module

# Other readers of JSON, and what they read. In `store` and `domain` each reads rows and sealed values of our own, or
# the files of the data folder; the simulator is a test double.
OURS = {
    "base/json_codec.py": "the one reader, and what `dumps` has just written",
    "base/config.py": "a value of the settings, which a check of its own reads",
    "base/field_docs.py": "a file of the package",
    "commands/listen.py": "data that the operator types: it is sent to the server, which checks it",
    "web/error_responses.py": "what `capped` has written",
    "domain/schemas/bounded_json.py": "a request: orjson takes no number that is not finite",
    **dict.fromkeys(
        ("accounts", "notifications", "webhooks", "layout", "sign_in", "posts"),
        "an answer or a sealed value of ours",
    ),
    **dict.fromkeys(
        ("file_upload", "form_buttons", "form_page", "form_saves", "form_views"),
        "an answer or a row of ours, in the composer",
    ),
}
READERS = {"loads", "load", "model_validate_json", "validate_json", "raw_decode", "JSONDecoder", "from_json"}


def readers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            owner = ast.unparse(node.func.value)
            if owner not in ("json_codec", "sql") and (node.func.attr != "load" or owner in ("json", "orjson")):
                yield f"{owner}.{node.func.attr}"


@pytest.mark.parametrize(
    "room",
    [
        "base",
        "platforms",
        "web",
        "commands",
        "domain/schemas",
        "domain/delivery/webhooks",
        "domain/media",
        "domain/backups",
    ],
)
def test_json_of_others_is_read_by_one_function(room: str) -> None:
    assert (PACKAGE / room).is_dir()
    for name in find_modules("|".join(READERS), room):
        known = name in OURS or (name.startswith("web/dashboard/") and Path(name).stem in OURS) or name in OWN_ROWS
        assert known or not list(readers(parse_module(name))), name


OWN_ROWS = {  # modules of these rooms that read columns of our own tables
    "domain/delivery/webhooks/endpoints.py",
    "domain/delivery/webhooks/sample_events.py",
    "domain/media/library.py",
    "domain/media/probe.py",  # what the process that measures files says
}


def test_no_exception_is_out_of_date() -> None:
    for name in (*OWN_ROWS, *(name for name in OURS if "/" in name)):
        assert list(readers(parse_module(name))), name


NUMBERS = st.sampled_from(
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "1.5e400",
        "9" * 400 + ".0",
        "1E+309",
        "1e-999",
        "0",
        "-1.5",
        "12",
    ]
)
DOCUMENTS = st.recursive(
    NUMBERS | st.sampled_from(['"NaN"', "null", "true", '"1e999"']),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]")
        | st.lists(inner, max_size=4).map(
            lambda items: "{" + ",".join(f'"n{number}":{item}' for number, item in enumerate(items)) + "}"
        )
    ),
    max_leaves=12,
)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value


@given(DOCUMENTS)
def test_a_number_that_is_not_finite_is_null(document: str) -> None:
    read = json_codec.loads(document)
    assert all(math.isfinite(number) for number in numbers(read))
    assert UpstreamResponse(200, {}, document.encode()).json() == read
    json.dumps(read, allow_nan=False)
    plain = json.loads(document)
    if all(math.isfinite(number) for number in numbers(plain)):
        assert read == plain


@pytest.mark.parametrize("document", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "", "nan", "\ufeff", b"\xff"])
def test_what_is_no_json_is_a_value_error(document: str | bytes) -> None:
    with pytest.raises(ValueError):
        json_codec.loads(document)
    assert UpstreamResponse(200, {}, document.encode() if isinstance(document, str) else document).json() is None
