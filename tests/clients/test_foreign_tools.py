"""Python client with tools of others: another type checker, and signers of webhooks.

pyright and octokit come from npm, svix and standardwebhooks from PyPI, in the versions of `foreign_tools/`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from socialpub_client import SignatureError
from socialpub_client.webhooks import verify
from tests.support.foreign_tools import install_from_npm, install_from_pypi, run_tool
from tests.support.signed_deliveries import BODY, NOW, OTHER, SECRET, delivery, own_only

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "foreign_tools"
USER_CODE = ROOT / "tests" / "clients" / "typed_user_code.py"
SIGNED = {"ID": "evt_1", "AT": str(NOW), "BODY": BODY.decode(), "SECRET": SECRET}


@pytest.fixture(scope="module")
def node_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = install_from_npm(HERE, tmp_path_factory.mktemp("node"))
    shutil.copy(HERE / "sign.mjs", folder)
    return folder


@pytest.fixture(scope="module")
def python_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_from_pypi(HERE / "requirements.txt", tmp_path_factory.mktemp("python"))


# --- Types ---------------------------------------------------------------------------------------------------------


def test_strict_pyright_accepts_the_client_and_code_of_users(node_tools: Path) -> None:
    """With the settings of `[tool.pyright]`; a package that is not found would be an error."""
    assert USER_CODE.read_text().count("    assert_type(") >= 40
    pyright = ["node", node_tools / "node_modules" / "pyright" / "index.js"]
    command = [*pyright, "-p", ROOT, "--pythonpath", sys.executable, "--outputjson"]
    summary = json.loads(run_tool(command, ROOT))["summary"]
    assert (summary["errorCount"], summary["warningCount"]) == (0, 0)
    assert summary["filesAnalyzed"] > 50


# --- Signatures ----------------------------------------------------------------------------------------------------


def assert_only_whole(
    headers: Mapping[str, str], forgeries: Mapping[str, tuple[Mapping[str, str], bytes, str]]
) -> None:
    """Assert that a delivery is accepted as it is, and none of its forgeries."""
    assert verify(headers, BODY, SECRET, now=NOW).id == "evt_1"
    for what, (changed, body, secret) in forgeries.items():
        assert (changed, body, secret) != (headers, BODY, SECRET), what
        with pytest.raises(SignatureError):
            verify(changed, body, secret, now=NOW)


def test_signatures_of_svix_and_standardwebhooks_are_accepted(python_tools: Path) -> None:
    signatures = json.loads(run_tool([python_tools / "python", HERE / "sign.py"], HERE, **SIGNED))
    assert sorted(signatures) == ["standardwebhooks", "svix"]
    late = SIGNED | {"AT": str(NOW - 301)}
    old = json.loads(run_tool([python_tools / "python", HERE / "sign.py"], HERE, **late))
    for name, signature in signatures.items():
        headers = {"webhook-id": "evt_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
        moved = headers | {"webhook-timestamp": str(NOW + 1)}
        replayed = headers | {"webhook-timestamp": late["AT"], "webhook-signature": old[name]}
        forgeries = {
            "another body": (headers, BODY + b" ", SECRET),
            "another secret": (headers, BODY, OTHER),
            "a moved time": (moved, BODY, SECRET),
            "an old delivery": (replayed, BODY, SECRET),
            "another id": (headers | {"webhook-id": "evt_2"}, BODY, SECRET),
        }
        for missing in headers:
            rest = {header: value for header, value in headers.items() if header != missing}
            forgeries[f"no {missing}"] = (rest, BODY, SECRET)
        assert_only_whole(headers, forgeries)


def test_octokit_and_the_client_accept_the_same_signatures(node_tools: Path) -> None:
    """GitHub's scheme is that of `…-Signature`: the body alone, without a time."""
    ours = own_only(delivery(SECRET))
    (name,) = (header for header in ours if header.endswith("-Signature"))
    signed = SIGNED | {"SIGNATURE": ours[name]}
    signature, accepted = json.loads(run_tool(["node", "sign.mjs"], node_tools, **signed))
    assert accepted
    headers = {name: signature}
    forgeries = {
        "another body": (headers, BODY + b" ", SECRET),
        "another secret": (headers, BODY, OTHER),
        "no signature": ({}, BODY, SECRET),
        "a digest of SHA-1": ({name: signature.replace("sha256=", "sha1=")}, BODY, SECRET),
    }
    assert_only_whole(headers, forgeries)
    refused = json.loads(run_tool(["node", "sign.mjs"], node_tools, **(signed | {"BODY": SIGNED["BODY"] + " "})))
    assert refused[1] is False
