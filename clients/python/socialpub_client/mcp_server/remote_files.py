"""Files from the web for uploads: from public https addresses alone.

A model names them, and must not reach this machine or its network.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import httpx2

from socialpub_client import InvalidArgument

FILE_BYTES = 256 << 20
SECONDS = 120.0
AT_ONCE = 4
REMEDY = "Give a public https address of a file, without a redirect, of at most 256 MiB."

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host, for a port. Raises OSError."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the IPv4 addresses of a host.

    IPv6 is left out: private addresses hide in it in many ways.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def is_public(address: str) -> bool:
    """Return True for an address of the internet.

    False: of this machine, its network, a provider's metadata.
    """
    parsed = ipaddress.ip_address(address)
    return parsed.is_global and not parsed.is_multicast


class RemoteFiles:
    """Fetches files.

    `resolve`, `is_public`, `tls`: passed by tests, which have no public server.
    """

    def __init__(
        self,
        resolve: Resolve = resolve,
        is_public: Callable[[str], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve, self._is_public, self._tls = resolve, is_public, tls
        self._slots = asyncio.Semaphore(AT_ONCE)

    @contextlib.asynccontextmanager
    async def fetch(self, url: str) -> AsyncGenerator[tuple[Path, str]]:
        """Fetch a file: its path, while the block runs, and its name. Raises InvalidArgument.

        The connection goes to the address that was checked, so a name that changes meanwhile leads nowhere else.
        """
        host, port, target = _parse(url)
        address = await self._find_address(host, port)
        with tempfile.NamedTemporaryFile(prefix="socialpub-") as file:
            try:
                async with asyncio.timeout(SECONDS), self._slots:
                    await self._download(f"https://{address}:{port}{target}", host, port, file.write)
            except TimeoutError as error:
                raise _refuse(f"The file took longer than {SECONDS:g} seconds.") from error
            except httpx2.HTTPError as error:
                raise _refuse(f"The file could not be fetched ({type(error).__name__}).") from error
            file.flush()
            yield Path(file.name), unquote(PurePosixPath(urlsplit(url).path).name) or "file"

    async def _find_address(self, host: str, port: int) -> str:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, ValueError) as error:  # ValueError: of a name that cannot be written for DNS
            raise _refuse("The host of the address is unknown.") from error
        if not addresses or not all(self._is_public(address) for address in addresses):
            raise _refuse("The address is not a public one.")
        return addresses[0]

    async def _download(self, url: str, host: str, port: int, write: Callable[[bytes], object]) -> None:
        headers = {"Host": host if port == 443 else f"{host}:{port}"}
        tls = self._tls or ssl.create_default_context()
        size = 0
        async with (
            httpx2.AsyncClient(verify=tls, trust_env=False, follow_redirects=False, timeout=30) as client,
            client.stream("GET", url, headers=headers, extensions={"sni_hostname": host}) as response,
        ):
            if response.status_code != 200:
                raise _refuse(f"The address answered {response.status_code}.")
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > FILE_BYTES:
                    raise _refuse("The file is too large.")
                write(piece)


def _parse(url: str) -> tuple[str, int, str]:
    """Return host, port, and path with query. Raises InvalidArgument."""
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError as error:
        raise _refuse("This is no URL.") from error
    if (
        parts.scheme != "https"
        or not parts.hostname
        or parts.username is not None
        or not (url.isascii() and url.isprintable())
    ):
        raise _refuse("This is no https URL, or it has a user name.")
    return parts.hostname, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _refuse(message: str) -> InvalidArgument:
    return InvalidArgument(message, rule="url", remediation=REMEDY)
