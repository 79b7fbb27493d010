"""Build a release in dist/{version}; `make release`.

It has the wheels of server and client, the source, the binary, what they are made of and were tested with, and their
checksums.

    python .ci/release.py [--check]

Refuses a tree with changes that are not committed, a version that CHANGELOG.md has no dated section for, and one whose
tag is on another commit. `--check`: looks, and builds nothing. Ends with 1 when it refuses.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = "clients/python"
BUILDERS = {"podman": ("build", "--format", "docker"), "docker": ("build",)}  # the other form has no health check


class RefusedError(Exception):
    """Why this is no release."""


def run(*words: str | Path, folder: str = ".", **environment: str) -> str:
    """What a command says on standard output; RefusedError when it fails."""
    where = {"cwd": ROOT / folder, "env": os.environ | environment}
    done = subprocess.run(words, capture_output=True, text=True, check=False, **where)
    if done.returncode:
        raise RefusedError(f"{' '.join(map(str, words))} failed:\n{done.stderr}")
    return done.stdout


def main() -> int:
    try:
        version = check()
        if "--check" not in sys.argv:
            build(version)
    except RefusedError as why:
        print(f"release: {why}", file=sys.stderr)
        return 1
    return 0


# --- Before anything is built ----------------------------------------------------------------------------------------


def check() -> str:
    """The version that may be released."""
    if changed := run("git", "status", "--porcelain").strip():
        raise RefusedError(f"the tree has changes that are not committed:\n{changed}")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for place in ("socialpub/__init__.py", "clients/python/socialpub_client/__init__.py"):
        if f'__version__ = "{version}"' not in (ROOT / place).read_text():
            raise RefusedError(f"pyproject.toml says {version}, and {place} does not")
    if f'\nversion = "{version}"' not in (ROOT / CLIENT / "pyproject.toml").read_text():
        raise RefusedError(f"pyproject.toml says {version}, and {CLIENT}/pyproject.toml does not")
    if f'"socialpub-client=={version}"' not in (ROOT / "pyproject.toml").read_text():
        raise RefusedError(f"pyproject.toml says {version}, and depends on another version of the client")
    _check_changelog(version, (ROOT / "CHANGELOG.md").read_text())
    tagged = run("git", "tag", "--list", f"v{version}", "--format=%(objectname)").strip()
    if tagged and run("git", "rev-parse", f"v{version}^{{commit}}") != run("git", "rev-parse", "HEAD"):
        raise RefusedError(f"v{version} is the tag of another commit; give this one the next version")
    print(f"{version}: the tree is clean, CHANGELOG.md has it")
    return version


def _check_changelog(version: str, text: str) -> None:
    found = re.search(rf"^## \[{re.escape(version)}\] - (.*)\n((?:(?!## ).*\n?)*)", text, re.M)
    if not found:
        raise RefusedError(f"CHANGELOG.md has no section for {version}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", found[1]):
        raise RefusedError(f"CHANGELOG.md says {found[1]!r} of {version}: a release has a date")
    if not re.search(r"^- \S", found[2], re.M):
        raise RefusedError(f"CHANGELOG.md says nothing of {version}")


# --- Building --------------------------------------------------------------------------------------------------------


def build(version: str) -> None:
    """Everything, or nothing: the folder has its name once all is in it."""
    place, part = ROOT / "dist" / version, ROOT / "dist" / f".{version}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    made_at = run("git", "log", "-1", "--format=%ct").strip()  # the same commit gives the same wheel
    build = [sys.executable, "-m", "hatchling", "build", "-d", part, "-t", "wheel"]
    run(*build, "-t", "sdist", SOURCE_DATE_EPOCH=made_at)
    run(*build, folder=CLIENT, SOURCE_DATE_EPOCH=made_at)
    binary = part / f"socialpub-{version}-linux-{platform.machine()}"
    _binary(part, binary, made_at)
    sbom = run(sys.executable, ".ci/sbom.py", version, made_at, "requirements.lock")
    (part / f"socialpub-{version}.cdx.json").write_text(sbom)
    lock = (ROOT / "requirements-dev.lock").read_text()
    (part / f"socialpub-{version}-constraints.txt").write_text(constraints(version, lock))
    _container(version, binary)
    files = sorted(path for path in part.iterdir() if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (part / "SHA256SUMS").write_text("".join(sums))
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)
    for path in sorted(place.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    print(f"Then: git tag -s v{version} && git push --tags, and publish the folder.")


def constraints(version: str, lock: str) -> str:
    """The versions of a lock file as constraints for pip, without hashes: with them pip wants one of the wheel too.

    The development lock has what may be added (`s3`, `tracing`) at the versions that were tested, and the same versions
    of everything else; what is only for development is installed by nobody who does not ask for it.
    """
    pins = re.findall(r"^[\w.-]+==[^\s\\]+", lock, re.M)
    if len(pins) != len(re.findall(r"^[A-Za-z0-9]", lock, re.M)):
        raise RefusedError("the lock file has lines that are no versions")
    return "".join(f"{line}\n" for line in (f"# What socialpub {version} was tested with.", *pins))


def _binary(part: Path, binary: Path, made_at: str) -> None:
    builder = Path(sys.executable).with_name("pyinstaller")
    where = ["--distpath", part / "binary", "--workpath", part / "work"]
    run(builder, "--noconfirm", "--log-level", "ERROR", *where, ".ci/binary.spec", SOURCE_DATE_EPOCH=made_at)
    shutil.move(part / "binary" / "socialpub", binary)
    for folder in ("binary", "work"):
        shutil.rmtree(part / folder)
    if run(binary, "--version").strip() not in binary.name:
        raise RefusedError("the binary tells another version")


def _container(version: str, binary: Path) -> None:
    """The image, where there is somebody to build it; it is pushed by hand."""
    for builder, build in BUILDERS.items():
        if (
            shutil.which(builder)
            and subprocess.run([builder, "info"], capture_output=True, check=False).returncode == 0
        ):
            shutil.copy(binary, ROOT / "dist" / "socialpub")
            run(builder, *build, "-t", f"socialpub:{version}", "-f", "docs/running/Containerfile", ".")
            print(f"container socialpub:{version} was built by {builder}")
            return
    print(f"!!! CONTAINER NOT BUILT: neither {' nor '.join(BUILDERS)} works on this machine.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
