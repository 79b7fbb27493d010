"""`socialpub doctor`: checks what a server needs, changes nothing, and suggests remedies."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from socialpub import platforms
from socialpub.base import http as outbound
from socialpub.base.config import ConfigError, Settings
from socialpub.base.errors import ApiError
from socialpub.base.runtime import SystemClock, format_iso, load_vault
from socialpub.base.s3 import S3Bucket, S3BucketError
from socialpub.base.system.host_identity import identify_host
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import find_network_paths, load_settings
from socialpub.domain.accounts import api_versions
from socialpub.domain.context.platform_sites import PlatformSites, list_entered_apps
from socialpub.domain.media import files
from socialpub.domain.operations import server_status
from socialpub.domain.server import instance
from socialpub.platforms.contract import Platform, Site
from socialpub.platforms.kit import oauth
from socialpub.store import database as db
from socialpub.store.engine.locks import StartError, is_served
from socialpub.store.schema import migration
from socialpub.web.html.time_format import pluralize
from socialpub_client.commands.exit_codes import FAILED

CALL_SECONDS = 10.0
DRIFT_SECONDS = 30.0
FREE_DISK_MIN = 1024 * 1024 * 1024


@dataclass(frozen=True)
class DoctorCheck:
    """Result of a check. `remediation`: for a failure, or if ok for a warning."""

    name: str
    ok: bool
    message: str
    remediation: str = ""

    def lines(self) -> list[str]:
        """Format the check for people."""
        mark = "FAIL" if not self.ok else "warn" if self.remediation else "ok  "
        return [f"{mark}  {self.name}: {self.message}", *([f"      {self.remediation}"] if self.remediation else [])]


def doctor(options: CommandOptions) -> dict[str, Any]:
    """Run all checks; return `{ok, checks: […]}`. Exit code 1 on failure."""
    checks = list(_run_checks(options))
    ok = all(check.ok for check in checks)
    options.exit_code = 0 if ok else FAILED
    options.sentences = [line for check in checks for line in check.lines()]
    options.sentences.append("No problems found." if ok else "Problems found: see FAIL above.")
    return {"ok": ok, "checks": [asdict(check) for check in checks]}


def _run_checks(options: CommandOptions) -> Iterator[DoctorCheck]:
    try:
        settings = load_settings(options)
    except ConfigError as error:
        yield DoctorCheck("settings", False, str(error), "Correct it. The server does not start until then.")
        return
    yield DoctorCheck("settings", True, f"read from {settings.read_from}")
    yield from _database(settings)
    yield from _disk(settings)
    yield from _file_system(settings)
    if not options.offline:
        yield from _check_upstreams(settings, _sites(settings))


# --- Local checks --------------------------------------------------------------------------------------------------


def _database(settings: Settings) -> Iterator[DoctorCheck]:
    path = settings.database_path
    if not path.exists():
        yield DoctorCheck("database", True, f"{path} does not exist yet; the first start creates it")
        return
    try:
        behind = migration.count_missing(path)
        whole = db.check_start(path)
    except StartError as error:
        yield DoctorCheck("database", False, str(error), 'See "Restore" in docs/running.md.')
        return
    scope = "all of it was checked" if whole else "its start was checked; the server checks the rest"
    yield DoctorCheck("database", True, f"{path} is intact ({scope})")
    message = f"the next start runs {pluralize(behind, 'migration')}" if behind else "the schema is up to date"
    yield DoctorCheck("schema", True, message)
    if not behind:
        yield from _check_content(settings)


def _check_content(settings: Settings) -> Iterator[DoctorCheck]:
    """Check the database's content: master key, pause, accounts."""
    with contextlib.closing(db.Database(settings.database_path).open()) as database:
        needed, named = database.read(lambda: (instance.list_needed_keys(), files.has_references())).result()
        running, now = is_served(settings.database_path), SystemClock().now_ms()
        found = database.read(lambda: server_status.load_status(settings, now, running=running)).result()
        versions = database.read(api_versions.list_checks).result()
    yield _key(settings, needed)
    problem = files.find_problem(settings.data_dir, named)
    yield DoctorCheck(
        "data folder", problem is None, problem or f"{settings.data_dir} is usable", "Put it back." if problem else ""
    )
    yield from _convert_findings(found)
    for each in versions:
        yield _version(each)


_HEALTHY_TEXTS = {
    server_status.SERVER: "a server runs on this database",
    server_status.PUBLISHING: "publishing is not paused",
    server_status.POSTS: "no post is overdue, and none failed in the last day",
    server_status.ACCOUNTS: "no account needs attention",
}


def _convert_findings(found: server_status.ServerStatus) -> Iterator[DoctorCheck]:
    """Convert the findings of `status`."""
    wrong = server_status.list_findings(found)
    for about, well in _HEALTHY_TEXTS.items():
        here = [finding for finding in wrong if finding.about == about]
        yield from (DoctorCheck(about, False, finding.problem, finding.remedy) for finding in here)
        if not here:
            yield DoctorCheck(about, True, well)


def _version(check: api_versions.VersionCheckResult) -> DoctorCheck:
    """Report the last version check of a platform."""
    platform, when = platforms.platform(check.platform), format_iso(check.at)
    label, end = platform.label, platform.sunsets.get(check.pin)
    newer = f"; version {check.newer} is available" if check.newer and check.next_verdict == "good" else ""
    if check.verdict == "ended":
        use = f" or set platforms.{check.platform}.api_version to {check.newer}" if newer else ""
        message = f"{label} no longer serves version {check.pin} of its API ({check.reason}, {when}){newer}"
        return DoctorCheck(f"{label} version", False, message, f"Install a newer socialpub{use}.")
    result = "works" if check.verdict == "good" else "could not be checked"
    ends = f"; it ends on {end}" if end else "; no end of it is known"
    return DoctorCheck(
        f"{label} version", True, f"version {check.pin} of its API {result} ({check.reason}, {when}){ends}{newer}"
    )


def _key(settings: Settings, needed: set[str]) -> DoctorCheck:
    if not needed:
        return DoctorCheck("master key", True, "nothing is encrypted yet")
    try:
        load_vault(settings, needed=needed)
    except ConfigError as error:
        return DoctorCheck("master key", False, str(error), "Put the right key back from your copy.")
    return DoctorCheck("master key", True, "it decrypts the database")


def _disk(settings: Settings) -> Iterator[DoctorCheck]:
    folder = next(path for path in (settings.data_dir.resolve(), *settings.data_dir.resolve().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    yield DoctorCheck(
        "disk",
        free >= FREE_DISK_MIN,
        f"{free / 1e9:.1f} GB free at {folder}",
        "" if free >= FREE_DISK_MIN else "Free some space: below 0.2 GB, uploads are rejected.",
    )


def _file_system(settings: Settings) -> Iterator[DoctorCheck]:
    """Warn of directories on a network file system."""
    for problem in find_network_paths(settings, identify_host()):
        yield DoctorCheck("file system", True, problem, "Move the data to a disk of this machine: socialpub move")


# --- Network checks ------------------------------------------------------------------------------------------------


def _sites(settings: Settings) -> PlatformSites:
    """Load the platforms' settings, including entered apps."""
    found = PlatformSites(settings)
    with contextlib.suppress(StartError, ConfigError, ApiError):  # unreadable data have been reported already
        if settings.database_path.exists() and not migration.count_missing(settings.database_path):
            _load(found, settings)
    return found


def _load(found: PlatformSites, settings: Settings) -> None:
    with contextlib.closing(db.Database(settings.database_path).open()) as database:
        typed, needed = database.read(lambda: (list_entered_apps(), instance.list_needed_keys())).result()
    if typed:  # then a key exists, and none is created here
        found.load(typed, load_vault(settings, needed=needed))


def _check_upstreams(settings: Settings, sites: PlatformSites) -> Iterator[DoctorCheck]:
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:
        yield from _server(http, settings)
        yield from _public(http, settings)
        if settings.backup.s3_endpoint:
            yield _bucket(settings)
        for name, platform in platforms.PLATFORMS.items():
            site = sites[name]
            if site.enabled and (site.client_id or platform.credentials):
                yield from _platform(http, platform, site)


def _bucket(settings: Settings) -> DoctorCheck:
    try:
        found = S3Bucket(settings.backup).list_files()
    except S3BucketError as error:
        return DoctorCheck("backups in the bucket", False, str(error), "Correct the settings `backup.s3_…`.")
    return DoctorCheck("backups in the bucket", True, f"it can be listed; {len(found)} files are there")


def _server(http: outbound.HttpClient, settings: Settings) -> Iterator[DoctorCheck]:
    """Check that the server on this database is reachable at the configured address."""
    if not is_served(settings.database_path):
        return
    url = f"{settings.local_url}/readyz"
    try:
        reply = http.request("GET", url, timeout=CALL_SECONDS)
    except ApiError:
        other = "Its settings differ from these: give its settings file with --config, or correct the port."
        yield DoctorCheck(
            "server address", False, f"a server runs on this database, but does not answer at {url}", other
        )
        return
    said = _read_error(reply).get("message", "")
    remedy = "" if reply.is_success else "See its log."
    yield DoctorCheck(
        "server address", reply.is_success, f"it answers {reply.status_code} at {url} {said}".strip(), remedy
    )


def _read_error(reply: outbound.UpstreamResponse) -> dict[str, Any]:
    """Return the error in an answer of this program; empty for any other answer."""
    error = reply.record().get("error")
    return error if isinstance(error, dict) else {}


def _public(http: outbound.HttpClient, settings: Settings) -> Iterator[DoctorCheck]:
    if not settings.server.base_url:
        message = "server.base_url is not set: platforms cannot fetch media, and links work only on this machine"
        yield DoctorCheck("public address", True, message)
        return
    try:
        reply = http.request("GET", f"{settings.base_url}/healthz", timeout=CALL_SECONDS)
        fine = reply.record() == {"status": "ok"}
        seen = http.request("GET", f"{settings.base_url}/metrics", timeout=CALL_SECONDS) if fine else None
    except ApiError as error:
        yield DoctorCheck("public address", False, error.message, "Check the proxy, the name and the certificate.")
        return
    message = (
        f"{settings.base_url} {'is this server' if fine else f'answers {reply.status_code}, but is not socialpub'}"
    )
    yield DoctorCheck("public address", fine, message, "" if fine else "Check where the proxy sends requests.")
    if seen is not None:
        yield _proxy(seen)


def _proxy(seen: outbound.UpstreamResponse) -> DoctorCheck:
    """Check that the proxy names its clients, by how the server refuses its metrics through it."""
    if _read_error(seen).get("rule") != "metrics.unforwarded":
        return DoctorCheck("proxy", True, "requests to the public address name their client, or come without a proxy")
    return DoctorCheck(
        "proxy",
        False,
        "the proxy does not add X-Forwarded-For: rate limits and the log treat all clients as one",
        'Configure it to add the header: docs/running.md, "Proxy", has the lines for Caddy and nginx.',
    )


def _platform(http: outbound.HttpClient, platform: Platform, site: Site) -> Iterator[DoctorCheck]:
    name = platform.name
    if site.client_id and not site.client_secret:
        yield DoctorCheck(name, False, "client_id is set without client_secret", f"Set both in [platforms.{name}].")
        return
    base = site.api_base or str(getattr(site, "service", ""))
    try:
        reply = http.request("GET", base, timeout=CALL_SECONDS)
    except ApiError as error:
        yield DoctorCheck(name, False, error.message, "Check this machine's internet connection.")
        return
    yield DoctorCheck(name, True, f"{base} answers")
    if platform.oauth and platform.oauth.app_check:
        yield _app(http, platform, site)
    yield from _clock(name, reply)


def _app(http: outbound.HttpClient, platform: Platform, site: Site) -> DoctorCheck:
    """Check that the platform knows the app; an inconclusive answer passes."""
    name = f"{platform.name} app"
    try:
        oauth.check_app(platform, http, site)
    except ApiError as error:
        return DoctorCheck(name, error.code != "platform_not_enabled", error.message, error.remediation or "")
    return DoctorCheck(name, True, f"{platform.label} accepts the app")


def _clock(name: str, reply: outbound.UpstreamResponse) -> Iterator[DoctorCheck]:
    """Compare this machine's clock with the upstream's."""
    try:
        there = parsedate_to_datetime(reply.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return
    drift = SystemClock().now_ms() / 1000 - there
    fine = abs(drift) < DRIFT_SECONDS
    message = f"{abs(drift):.0f} s {'ahead of' if drift > 0 else 'behind'} {name}"
    yield DoctorCheck(
        "clock", fine, message, "" if fine else "Set the clock, and run NTP: scheduled posts depend on it."
    )
