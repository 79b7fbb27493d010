"""Settings of each platform, with the app entered in the dashboard if they name none.

An entered app applies from its commit on: every upstream call reads the current settings here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from socialpub import platforms
from socialpub.base.config import Settings
from socialpub.base.security import crypto
from socialpub.platforms.contract import Site
from socialpub.store.rows import PlatformAppRow
from socialpub.store.schema.models import PlatformApp, find_rows

log = logging.getLogger("socialpub.apps")


class PlatformSites(Mapping[str, Site]):
    """Sites by platform name. A site is replaced as a whole, never id and secret apart."""

    def __init__(self, settings: Settings) -> None:
        self._settings = {name: platforms.site(name, settings.platforms.get(name, {})) for name in platforms.PLATFORMS}
        self._now = self._settings

    def __getitem__(self, name: str) -> Site:
        return self._now[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def is_set(self, name: str) -> bool:
        """Return whether the settings name an app; it takes precedence over an entered one."""
        site = self._settings[name]
        return bool(site.client_id or site.client_secret)

    def with_app(self, name: str, client_id: str, client_secret: str) -> Site:
        """Return the site with this app."""
        return self._settings[name].model_copy(update={"client_id": client_id, "client_secret": client_secret})

    def use(self, name: str, client_id: str, client_secret: str) -> None:
        """Use this app from now on, unless the settings name one."""
        if not self.is_set(name):
            self._now = {**self._now, name: self.with_app(name, client_id, client_secret)}

    def forget(self, name: str) -> None:
        """Go back to the app of the settings, if any."""
        self._now = {**self._now, name: self._settings[name]}

    def load(self, rows: list[PlatformAppRow], vault: crypto.Vault) -> None:
        """Use the stored apps. One that cannot be decrypted is logged and skipped."""
        for row in rows:
            try:
                self.use(row["id"], row["client_id"], decrypt_secret(vault, row))
            except crypto.SealError:
                log.error("%s: the app's secret cannot be decrypted with this master key; enter it again", row["id"])


def list_entered_apps() -> list[PlatformAppRow]:
    """List the entered apps of platforms that this version has, unless their secret is lost."""
    return find_rows(PlatformApp, PlatformApp.id.in_(list(platforms.PLATFORMS)), PlatformApp.secret != "")


def encrypt_secret(vault: crypto.Vault, name: str, secret: str) -> str:
    return vault.seal(secret.encode(), _get_seal_place(name))


def decrypt_secret(vault: crypto.Vault, row: PlatformAppRow) -> str:
    """Decrypt the secret of an app. Raises SealError for another master key."""
    return vault.open(row["secret"], _get_seal_place(row["id"])).decode()


def _get_seal_place(name: str) -> tuple[str, str, str]:
    return ("platform_app", "secret", name)
