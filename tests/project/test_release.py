"""`make release`: refusals, contents, bill of materials and constraints."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub import __version__
from tests.support.release_files import module_of, pins

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.db*", "tests")
NAMED = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
Change = Callable[[Path], object]


def git(checkout: Path, *words: str) -> None:
    subprocess.run(["git", *NAMED, *words], cwd=checkout, check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean tree like this one, whose version has a date."""
    copy = tmp_path_factory.mktemp("release") / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    edit(copy / "CHANGELOG.md", rf"(## \[{__version__}\]) - .*", r"\1 - 2026-12-01")
    git(copy, "init", "-q")
    commit(copy)
    git(copy, "tag", "clean")
    return copy


@pytest.fixture
def checkout(repository: Path) -> Iterator[Path]:
    """The same for each test."""
    yield repository
    git(repository, "reset", "--hard", "-q", "clean")
    git(repository, "clean", "-fdxq")
    shutil.rmtree(repository / ".git" / "refs" / "tags")
    git(repository, "tag", "clean")


def commit(checkout: Path) -> None:
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "all of it")


def edit(path: Path, old: str, new: str) -> None:
    text, count = re.subn(old, new, path.read_text(), count=1)
    assert count == 1, old
    path.write_text(text)


def release(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ".ci/release.py", *words]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=600, check=False)


def test_a_clean_tree_with_a_dated_version_may_be_released(checkout: Path) -> None:
    done = release(checkout, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{__version__}: the tree is clean, CHANGELOG.md has it\n"
    assert not (checkout / "dist").exists()


def undated(checkout: Path) -> None:
    edit(checkout / "CHANGELOG.md", r"2026-12-01", "unreleased")


def unmentioned(checkout: Path) -> None:
    edit(checkout / "CHANGELOG.md", rf"\[{__version__}\]", "[0.0.1]")


def empty(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## [{__version__}] - 2026-12-01\n\n## [0.0.1] - 2026-01-01\n\n- x\n"
    )


def two_versions(checkout: Path) -> None:
    edit(checkout / "pyproject.toml", r'\nversion = ".*"', '\nversion = "9.9.9"')


def another_client(checkout: Path) -> None:
    edit(checkout / "clients/python/pyproject.toml", r'\nversion = ".*"', '\nversion = "9.9.9"')


def another_wanted(checkout: Path) -> None:
    edit(checkout / "pyproject.toml", r'"socialpub-client==.*"', '"socialpub-client==9.9.9"')


def released_before(checkout: Path) -> None:
    git(checkout, "tag", f"v{__version__}")


@pytest.mark.matrix
@pytest.mark.parametrize(
    "change, why",
    [
        (undated, f"CHANGELOG.md says 'unreleased' of {__version__}: a release has a date"),
        (unmentioned, f"CHANGELOG.md has no section for {__version__}"),
        (empty, f"CHANGELOG.md says nothing of {__version__}"),
        (two_versions, "pyproject.toml says 9.9.9, and socialpub/__init__.py does not"),
        (another_client, f"pyproject.toml says {__version__}, and clients/python/pyproject.toml does not"),
        (another_wanted, f"pyproject.toml says {__version__}, and depends on another version of the client"),
        (released_before, f"v{__version__} is the tag of another commit; give this one the next version"),
    ],
)
def test_what_is_no_release_is_refused_in_one_sentence(checkout: Path, change: Change, why: str) -> None:
    change(checkout)
    commit(checkout)
    done = release(checkout)
    assert (done.returncode, done.stderr) == (1, f"release: {why}\n")
    assert not (checkout / "dist").exists()


def test_a_tree_with_changes_is_refused(checkout: Path) -> None:
    (checkout / "left.txt").touch()
    done = release(checkout)
    assert (done.returncode, done.stderr) == (1, "release: the tree has changes that are not committed:\n?? left.txt\n")


# --- What it is made of ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sbom() -> Callable[[str], dict[str, Any]]:
    module = module_of("sbom")
    return lambda lock: module.document("1.2.3", 1_795_000_000, lock)


def test_every_locked_package_is_named_with_its_hashes_and_what_needs_it(sbom: Callable[[str], dict[str, Any]]) -> None:
    lock = (ROOT / "requirements.lock").read_text()
    made = sbom(lock)
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made == sbom(lock)  # nothing of it is by chance
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.M))
    assert {part["name"]: part["version"] for part in made["components"]} == locked
    hashes = [one["content"] for part in made["components"] for one in part["externalReferences"][0]["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", lock))
    refs = [part["bom-ref"] for part in made["components"]]
    assert len(set(refs)) == len(refs)
    needs = {entry["ref"]: entry["dependsOn"] for entry in made["dependencies"]}
    assert f"pkg:pypi/sanic@{locked['sanic']}" in needs["pkg:pypi/socialpub@1.2.3"]
    assert f"pkg:pypi/httpcore@{locked['httpcore']}" in needs[f"pkg:pypi/httpx@{locked['httpx']}"]
    assert {ref for used in needs.values() for ref in used} == set(refs)  # each is needed by somebody


def test_a_lock_file_that_is_not_understood_is_refused(sbom: Callable[[str], dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="without hashes"):
        sbom("sanic==25.12.1\n")


def test_the_constraints_are_the_versions_of_both_lock_files() -> None:
    """Those of the program, and of what may be added to it, at the versions that the tests ran with."""
    tested, run = ((ROOT / f"requirements{kind}.lock").read_text() for kind in ("-dev", ""))
    made = module_of("release").constraints("1.2.3", tested)
    assert pins(made) == pins(tested)
    assert pins(run).items() <= pins(made).items()
    assert "--hash" not in made
    assert "minio" in pins(made)
    assert "opentelemetry-sdk" in pins(made)


def test_a_lock_file_with_anything_but_versions_makes_no_constraints() -> None:
    release_program = module_of("release")
    with pytest.raises(release_program.RefusedError):
        release_program.constraints(
            "1.2.3", "sanic==25.12.1 \\\n    --hash=sha256:00\nhttpx @ https://example.com/x.whl\n"
        )


def test_the_page_names_the_constraints_as_the_release_does() -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    assert set(re.findall(r"socialpub-\S+?-constraints\.txt", page)) == {f"socialpub-{__version__}-constraints.txt"}
    assert "constraints.txt" in (ROOT / "README.md").read_text(encoding="utf-8")


# --- The whole of it ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_release_has_everything_and_its_checksums(checkout: Path) -> None:
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    assert "container" in (done.stdout + done.stderr).lower()  # built, or loudly not
    place = checkout / "dist" / __version__
    names = {path.name for path in place.iterdir()}
    wheel, source = f"socialpub-{__version__}-py3-none-any.whl", f"socialpub-{__version__}.tar.gz"
    (binary,) = (name for name in names if name.startswith(f"socialpub-{__version__}-linux-"))
    told_of = {f"socialpub-{__version__}.cdx.json", f"socialpub-{__version__}-constraints.txt"}
    client = f"socialpub_client-{__version__}-py3-none-any.whl"
    assert names == {wheel, client, source, binary, *told_of, "SHA256SUMS"}
    sums = dict(reversed(line.split("  ")) for line in (place / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names if name != "SHA256SUMS"
    }
    told = subprocess.run([place / binary, "--version"], capture_output=True, text=True, check=True).stdout
    assert told == f"{__version__}\n"
    assert json.loads((place / f"socialpub-{__version__}.cdx.json").read_text())["bomFormat"] == "CycloneDX"
    assert release(checkout, "--check").returncode == 0  # nothing was left in the tree
