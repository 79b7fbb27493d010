"""What this server knows of each platform: its settings, and where they name no app, the one that an owner typed in.

Such an app counts from the moment at which it is committed: whoever makes a call asks here for what it needs.
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
    """By the platform's name. What is read is one app's, never the id of one and the secret of another."""

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
        """Whether the settings name an app at the platform, which then counts whatever was typed in."""
        site = self._settings[name]
        return bool(site.client_id or site.client_secret)

    def with_app(self, name: str, client_id: str, client_secret: str) -> Site:
        """What would be known with this app."""
        return self._settings[name].model_copy(update={"client_id": client_id, "client_secret": client_secret})

    def use(self, name: str, client_id: str, client_secret: str) -> None:
        """From now on this app acts, unless the settings name another."""
        if not self.is_set(name):
            self._now = {**self._now, name: self.with_app(name, client_id, client_secret)}

    def forget(self, name: str) -> None:
        """From now on none does but that of the settings."""
        self._now = {**self._now, name: self._settings[name]}

    def load(self, rows: list[PlatformAppRow], vault: crypto.Vault) -> None:
        """Use what was typed in before. What cannot be opened any more is told, and left out."""
        for row in rows:
            try:
                self.use(row["id"], row["client_id"], decrypt_secret(vault, row))
            except crypto.SealError:
                log.error("%s: the app's secret cannot be read with this master key; type it in again", row["id"])


def list_entered_apps() -> list[PlatformAppRow]:
    """The apps that were typed in, at platforms that this version has; not those whose secret went with a lost key."""
    return find_rows(PlatformApp, PlatformApp.id.in_(list(platforms.PLATFORMS)), PlatformApp.secret != "")


def encrypt_secret(vault: crypto.Vault, name: str, secret: str) -> str:
    return vault.seal(secret.encode(), _get_seal_place(name))


def decrypt_secret(vault: crypto.Vault, row: PlatformAppRow) -> str:
    """The secret of an app; SealError where this master key is not the one."""
    return vault.open(row["secret"], _get_seal_place(row["id"])).decode()


def _get_seal_place(name: str) -> tuple[str, str, str]:
    return ("platform_app", "secret", name)
