"""Installation by every way that docs/running.md gives, up to a published post.

The binary has its tests in tests/project/test_binary.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from socialpub import __version__
from tests.support import installation_walkthrough
from tests.support.ports import free_port
from tests.support.release_files import DEBIAN, module_of, pins
from tests.support.reporting import ReportLine

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "docs" / "running" / "socialpub.service"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's ways")]


# --- pipx, uvx: the wheel and what it depends on, from the package registry ----------------------------------------

LEANED_ON = ("sanic", "huey", "httpx", "peewee")


def bounds() -> dict[str, tuple[str, str]]:
    """Of what we lean on: the lowest version that is allowed, and the first that is not."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = (re.fullmatch(r"(\w+)>=([\d.]+),<([\d.]+)", line) for line in wanted)
    return {match[1]: (match[2], match[3]) for match in found if match}


def test_what_we_lean_on_has_an_upper_bound() -> None:
    assert set(bounds()) >= set(LEANED_ON)


def outside() -> dict[str, str]:
    """An environment that has nothing of this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOCIALPUB_"))}


def by_registry(words: Sequence[str | Path], what: str, where: Mapping[str, str], folder: Path | None = None) -> None:
    """Run what needs the package registry; the test is skipped where that cannot be reached."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600, check=False, env=where)
    said = done.stdout + done.stderr
    if done.returncode and any(word in said for word in ("NewConnectionError", "No matching distribution")):
        pytest.skip(
            f"!!! NOT DONE: the package registry cannot be reached, so nothing is known of {what}. "
            "Run `make test-slow` where the network allows it."
        )
    assert done.returncode == 0, said


@pytest.mark.parametrize("which", ["lowest", "newest"])
def test_wheel_publishes_with_the_lowest_and_newest_allowed_versions(
    which: str, wheel: Path, client_wheel: Path, tmp_path: Path
) -> None:
    """As pipx and uvx do it: an environment of its own, and whatever the registry has."""
    home, folder = tmp_path / "venv", tmp_path / "data"
    folder.mkdir()
    venv.create(home, symlinks=True, with_pip=True)
    pins = [f"{name}=={lowest}.0" for name, (lowest, _) in bounds().items()] if which == "lowest" else []
    install = [home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", client_wheel, wheel, *pins]
    by_registry(install, f"the wheel with the {which} versions allowed", outside())
    program = str(home / "bin" / "socialpub")
    installation_walkthrough.check_installation(lambda *words: [program, *words], folder, outside())


def test_the_client_alone_is_small_and_has_nothing_of_the_server(
    client_wheel: Path, tmp_path: Path, tell: ReportLine
) -> None:
    with zipfile.ZipFile(client_wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {"socialpub_client", "socialpub_start.py", f"socialpub_client-{__version__}.dist-info"}
    home = tmp_path / "venv"
    venv.create(home, symlinks=True, with_pip=True)
    by_registry([home / "bin" / "pip", "install", "--quiet", client_wheel], "the client alone", outside())

    def said(*words: str) -> str:
        done = subprocess.run([home / "bin" / words[0], *words[1:]], capture_output=True, check=True, env=outside())
        return done.stdout.decode()

    packages = {each["name"] for each in json.loads(said("pip", "list", "--format=json"))} - {"pip", "setuptools"}
    assert len(packages) <= 12, packages
    assert not packages & {"pydantic", "socialpub"}
    helped = said("socialpub", "--help")
    assert ("Commands over the API" in helped, "this machine's database" in helped) == (True, False)
    took = "import time; a = time.process_time(); import socialpub_client; print(time.process_time() - a)"
    best = min(float(said("python", "-c", took)) for _ in range(10))
    tell(f"the client alone: {len(packages)} packages, imported in {best * 1000:.0f} ms of CPU, best of 10")


CONSTRAINTS = f"socialpub-{__version__}-constraints.txt"
LOCKED = pins((ROOT / "requirements.lock").read_text())


def constraints() -> str:
    text = module_of("release").constraints(__version__, (ROOT / "requirements-dev.lock").read_text())
    assert isinstance(text, str)
    return text


def locked_versions(python: Path, where: Mapping[str, str]) -> dict[str, str]:
    """The versions that an environment has of what the lock file has."""
    told = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()), sep='\\n')"
    done = subprocess.run([python, "-c", told], capture_output=True, text=True, check=True, env=outside() | where)
    found = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins(done.stdout).items()}
    return {name: version for name, version in found.items() if name in LOCKED}


def test_pip_installs_the_tested_versions_with_the_constraints(wheel: Path, client_wheel: Path, tmp_path: Path) -> None:
    """By the command of the page; nothing is installed."""
    page = " ".join((ROOT / "docs" / "running.md").read_text(encoding="utf-8").split())
    (command,) = re.findall(rf"`(pip install --constraint {CONSTRAINTS})`", page)
    home = tmp_path / "venv"
    venv.create(home, symlinks=True, with_pip=True)
    (tmp_path / CONSTRAINTS).write_text(constraints())
    program, *words = command.split()
    report = tmp_path / "report.json"
    more = ["--dry-run", "--ignore-installed", "--quiet", "--report", report, client_wheel, wheel]
    by_registry([home / "bin" / program, *words, *more], "what pip takes with the constraints", outside(), tmp_path)
    taken = {
        each["metadata"]["name"]: each["metadata"]["version"] for each in json.loads(report.read_text())["install"]
    }
    assert taken.pop("socialpub") == taken.pop("socialpub-client") == __version__
    assert {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in taken.items()} == LOCKED


def test_pipx_installs_the_wheels_and_extras_by_the_pages_commands(
    wheel: Path, client_wheel: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    installs = re.findall(r"^    (pipx (?:install|inject) .*\.whl)$", page, re.MULTILINE)
    shutil.copy(client_wheel, wheel.parent)
    (wheel.parent / CONSTRAINTS).write_text(constraints())
    added = re.findall(r"`(pipx inject socialpub-client [^`]+)`", page)
    assert (
        len(added) == len(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]) - 1
    )
    tools, folder = tmp_path / "tools", tmp_path / "data"
    folder.mkdir()
    venv.create(tools, symlinks=True, with_pip=True)
    by_registry([tools / "bin" / "pip", "install", "--quiet", "pipx"], "pipx", outside())
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    where = outside() | places | {"PIPX_DEFAULT_PYTHON": sys.executable}
    for command in (*installs, *added):
        by_registry(["sh", "-c", f"{tools / 'bin'}/{command}"], command, where, wheel.parent)
    program = str(tmp_path / "bin" / "socialpub")
    installation_walkthrough.check_installation(lambda *words: [program, *words], folder, outside())
    python = tmp_path / "pipx" / "venvs" / "socialpub-client" / "bin" / "python"
    assert locked_versions(python, places) == LOCKED
    needed = "import minio, opentelemetry.exporter.otlp.proto.http.trace_exporter"
    subprocess.run([python, "-c", needed], check=True, timeout=60, env=outside())


def test_locked_packages_and_both_wheels_install_without_network(
    wheel: Path, client_wheel: Path, tmp_path: Path
) -> None:
    """Downloaded once, with the hash of every file checked; then installed where no registry is asked."""
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    block = next(part for part in page.split("\n\n") if "pip download" in part)
    download, *installs = [line.strip() for line in block.splitlines()]
    home, folder = tmp_path / "venv", tmp_path / "data"
    folder.mkdir()
    venv.create(home, symlinks=True, with_pip=True)
    for file in (wheel, client_wheel, ROOT / "requirements.lock"):
        shutil.copy(file, tmp_path)
    where = outside() | {"PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    by_registry(shlex.split(download), "downloading the locked packages", where, tmp_path)
    offline = where | {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": os.devnull}
    for command in installs:
        subprocess.run(command, shell=True, cwd=tmp_path, env=offline, check=True, timeout=300)
    assert locked_versions(home / "bin" / "python", {}) == LOCKED
    program = str(home / "bin" / "socialpub")
    installation_walkthrough.check_installation(lambda *words: [program, *words], folder, outside())


# --- systemd: the unit, in an empty Debian -----------------------------------------------------------------------

UID = 61234  # what DynamicUser may give


@pytest.fixture(scope="module")
def debian(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty Debian with the one file in the place where the page puts it."""
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("making an empty Debian needs root and debootstrap")
    root = tmp_path_factory.mktemp("systemd") / "debian"
    make = ["debootstrap", "--variant=minbase", "bookworm", root, DEBIAN]
    subprocess.run(make, check=True, timeout=300, capture_output=True, umask=0o022)
    subprocess.run(["install", "-m", "755", binary, root / "usr" / "local" / "bin" / "socialpub"], check=True)
    yield root
    shutil.rmtree(root, ignore_errors=True)


def of_unit(name: str) -> list[str]:
    """What a setting of the unit says, in words."""
    found = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.M)
    return found[-1].split() if found else []


def test_unit_publishes_as_its_user_on_a_read_only_system(debian: Path) -> None:
    """What of the unit can be done without systemd: its ExecStart, environment, mask and folders as a user without a
    name, without any capability and without new ones, all but its folders read-only and /tmp its own.

    Not done here, since only systemd does it: LimitNOFILE, SystemCallFilter, RestrictAddressFamilies,
    RestrictNamespaces, ProtectProc and the like. `systemd-analyze` reads them (tests/project/test_operator_docs.py).
    """
    port, folders = free_port(), [debian / "var" / "lib" / name for name in of_unit("StateDirectory")]
    for folder in folders:
        folder.mkdir(mode=0o700)
        os.chown(folder, UID, UID)
    with installation_walkthrough.running_simulator(lambda *words: in_root(debian, "socialpub", *words)) as platforms:
        settings = debian / "etc" / "socialpub.toml"
        settings.write_text(installation_walkthrough.settings_text(platforms["platforms"]["bluesky"], port))
        settings.chmod(0o644)  # systemd hands its user a copy (LoadCredential)
        started = [*of_unit("ExecStart"), "--config", "/etc/socialpub.toml"]
        with installation_walkthrough.running_process(
            as_the_unit(debian, folders, started), stderr=subprocess.PIPE, text=True
        ) as server:
            url = f"http://127.0.0.1:{port}"
            installation_walkthrough.wait_for(url, server)
            installation_walkthrough.check_publishing(url, platforms, lambda *words: beside(debian, *words))
        assert server.returncode == 0
        assert server.stderr
        assert "Traceback" not in server.stderr.read()
        server.stderr.close()
    owners = {path.stat().st_uid for path in folders[0].rglob("*")}
    modes = {path.stat().st_mode & 0o077 for path in folders[0].rglob("*")}
    assert (owners, modes) == ({UID}, {0})  # what root did beside it too


def in_root(debian: Path, *words: str) -> list[str]:
    return ["env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "chroot", str(debian), *words]


def beside(debian: Path, *words: str) -> list[str]:
    """A command beside the server, as root: as the page says."""
    given = ("--database", "/var/lib/socialpub/socialpub.db", "--config", "/etc/socialpub.toml")
    return in_root(debian, "socialpub", *words, *given)


def as_the_unit(debian: Path, folders: list[Path], started: list[str]) -> list[str]:
    binds = " && ".join(f"mount --bind {folder} {folder}" for folder in folders)
    (home,) = of_unit("WorkingDirectory")
    (mask,) = of_unit("UMask")
    script = (
        f"mount --bind {debian} {debian} && {binds} && mount -o remount,bind,ro {debian} && "
        f"mount -t tmpfs tmpfs {debian}/tmp && umask {mask} && "
        f'exec env -i {" ".join(of_unit("Environment"))} PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"'
    )
    user = ["--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--bounding-set", "-all", "--no-new-privs"]
    # The mark, the data and the program are found from the root of the empty Debian.
    inside = ["chroot", str(debian), "setpriv", *user, "sh", "-c", f'cd {home} && exec "$@"', "sh", *started]
    return ["unshare", "--mount", "sh", "-ec", script, "sh", *inside]


# --- A container, built and run by buildah, which needs no daemon ----------------------------------------------------

IMAGE, USER = "socialpub", 10001
BASE = "docker.io/library/debian:bookworm-slim"
CONTAINERFILE = ROOT / "docs" / "running" / "Containerfile"
Buildah = Callable[..., list[str]]


@pytest.fixture
def buildah(debian: Path, tmp_path: Path) -> Iterator[Buildah]:
    """Its commands, in a store of its own that has the base image: no registry is asked."""
    if shutil.which("buildah") is None:
        pytest.skip("building a container needs buildah")
    kept = [f"--{name}={tmp_path / name}" for name in ("root", "runroot")]

    def words(command: str, *more: str | Path) -> list[str]:
        return ["buildah", *kept, "--storage-driver=vfs", command, *map(str, more)]

    empty = said(words("from", "scratch"))
    said(words("add", "--quiet", empty, debian, "/"))
    said(words("commit", "--quiet", empty, BASE))
    said(words("rm", empty))
    yield words
    said(words("rm", "--all"))


def said(words: list[str]) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_the_container_publishes_is_healthy_and_runs_as_nobody_special(
    buildah: Buildah, binary: Path, tmp_path: Path
) -> None:
    context = tmp_path / "checkout"
    (context / "dist").mkdir(parents=True)
    shutil.copy(binary, context / "dist")
    form = ["--format", "docker", "--isolation", "chroot", "--pull-never"]
    said(buildah("build", *form, "-t", IMAGE, "-f", CONTAINERFILE, context))
    image = json.loads(said(buildah("inspect", "--type", "image", IMAGE)))["Docker"]["config"]
    container = said(buildah("from", "--pull-never", IMAGE))
    port = free_port()

    def inside(*words: str) -> list[str]:
        given = [f"--env={name}={value}" for name, value in environment.items()]
        return buildah("run", "--isolation", "chroot", *given, container, "--", *words)

    environment: dict[str, object] = {}
    with installation_walkthrough.running_simulator(lambda *words: inside("socialpub", *words)) as platforms:
        environment |= {"SOCIALPUB_SERVER__PORT": port, "SOCIALPUB_SECURITY__ALLOW_PRIVATE_NETWORKS": "true"}
        environment["SOCIALPUB_PLATFORMS__BLUESKY__API_BASE"] = platforms["platforms"]["bluesky"]
        with installation_walkthrough.running_process(
            inside(*image["Entrypoint"], *image["Cmd"]), stderr=subprocess.PIPE, text=True
        ) as server:
            installation_walkthrough.wait_for(f"http://127.0.0.1:{port}", server)
            installation_walkthrough.check_publishing(
                f"http://127.0.0.1:{port}", platforms, lambda *words: inside("socialpub", *words)
            )
            health = [word.replace("8080", str(port)) for word in image["Healthcheck"]["Test"][1:]]
            said(inside(*health))
            assert said(inside("id", "--user")) == str(USER)
            assert set(said(inside("ls", "/data")).split()) >= {"socialpub.db", "master.key"}
            assert said(inside("ls", "/marks"))
        assert server.stderr
        server.stderr.close()
    assert set(image["Volumes"]) == {"/data", "/marks"}
    unwell = subprocess.run(inside(*health), capture_output=True, timeout=60, check=False)
    assert unwell.returncode != 0  # it has stopped
