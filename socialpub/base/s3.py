"""An S3 bucket for backups: stores and loads whole files.

Uses the package `minio`, an extra (`pip install "socialpub[s3]"`) that is imported only if a bucket is configured.
Calls have limits of time, retries and memory.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import certifi

from socialpub.base.config import ConfigError
from socialpub.base.settings_sections import BackupSettings

CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
RETRIES = 3
PART_BYTES = 16 * 1024 * 1024  # in memory at once
CHUNK_BYTES = 1024 * 1024
OBJECTS_MAX = 10_000

ProgressCallback = Callable[[int], None]
"""Called with the number of bytes just transferred."""

_ERROR_TEXTS = {
    "NoSuchBucket": "there is no such bucket",
    "NoSuchKey": "there is no such backup in the bucket",
    "AccessDenied": "the key may not do that in this bucket",
    "InvalidAccessKeyId": "the store does not know backup.s3_access_key",
    "SignatureDoesNotMatch": "backup.s3_secret_key is not the one of backup.s3_access_key",
    "RequestTimeTooSkewed": "this machine's clock is wrong",
    "AuthorizationHeaderMalformed": "the bucket is in another region: see backup.s3_region",
}


class S3BucketError(Exception):
    """The bucket cannot be used; the message says why."""


@dataclass(frozen=True)
class S3Object:
    name: str
    size: int


def check_settings(settings: BackupSettings) -> None:
    """Raise ConfigError if a bucket is configured and the package for it is missing."""
    if settings.s3_endpoint:
        _make_client(settings)


class S3Bucket:
    """The files under one prefix of a bucket. Every failure is an S3BucketError."""

    def __init__(self, settings: BackupSettings) -> None:
        self._settings, self._client = settings, _make_client(settings)

    def where(self, name: str = "") -> str:
        """Return the address of a file, for people."""
        return f"s3://{self._settings.s3_bucket}/{self._key(name)}"

    def put(self, path: Path, name: str, moved: ProgressCallback) -> None:
        """Upload a file under a name; it is visible once it is complete."""
        size = path.stat().st_size
        with self._convert_errors(name), path.open("rb") as file:
            data: Any = _ProgressReader(file, moved)
            bucket, part = self._settings.s3_bucket, PART_BYTES if size > PART_BYTES else 0
            self._client.put_object(bucket, self._key(name), data, size, part_size=part, num_parallel_uploads=1)
            stored_size = self._client.stat_object(bucket, self._key(name)).size
        if stored_size != size:
            raise S3BucketError(f"{self.where(name)}: {stored_size} of {size} bytes arrived.")

    def get(self, name: str, into: IO[bytes], moved: ProgressCallback) -> None:
        with self._convert_errors(name):
            response = self._client.get_object(self._settings.s3_bucket, self._key(name))
            try:
                for chunk in response.stream(CHUNK_BYTES):
                    into.write(chunk)
                    moved(len(chunk))
            finally:
                response.close()
                response.release_conn()

    def size(self, name: str) -> int:
        with self._convert_errors(name):
            return int(self._client.stat_object(self._settings.s3_bucket, self._key(name)).size or 0)

    def list_files(self) -> list[S3Object]:
        """Return the files directly under the prefix, at most OBJECTS_MAX."""
        with self._convert_errors(""):
            found = []
            for each in self._client.list_objects(self._settings.s3_bucket, prefix=self._key("")):
                name = str(each.object_name).removeprefix(self._key(""))
                if name and not each.is_dir:
                    found.append(S3Object(name, int(each.size or 0)))
                if len(found) == OBJECTS_MAX:
                    break
            return found

    def remove(self, name: str) -> None:
        with self._convert_errors(name):
            self._client.remove_object(self._settings.s3_bucket, self._key(name))

    def _key(self, name: str) -> str:
        prefix = self._settings.s3_prefix.strip("/")
        return f"{prefix}/{name}" if prefix else name

    @contextlib.contextmanager
    def _convert_errors(self, name: str) -> Iterator[None]:
        """Convert the package's exceptions to S3BucketError."""
        from xml.etree.ElementTree import ParseError

        from minio.error import MinioException, S3Error
        from urllib3.exceptions import HTTPError

        try:
            yield
        except S3Error as error:
            reason = _ERROR_TEXTS.get(error.code or "") or f"{error.code}: {error.message}"
            raise S3BucketError(f"{self.where(name)}: {reason}.") from error
        except HTTPError as error:
            raise S3BucketError(f"{self.where(name)}: {self._settings.s3_endpoint} cannot be reached.") from error
        except (MinioException, ParseError, ValueError) as error:
            raise S3BucketError(
                f"{self.where(name)}: the store sent a response that is not S3's ({type(error).__name__})."
            ) from error


class _ProgressReader:
    """A file that reports how much of it was read."""

    def __init__(self, file: IO[bytes], moved: ProgressCallback) -> None:
        self._file, self._moved = file, moved

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(min(size, CHUNK_BYTES) if size >= 0 else CHUNK_BYTES)
        self._moved(len(chunk))
        return chunk


def _make_client(settings: BackupSettings) -> Any:
    # Imported here: the base install lacks it, and it would slow down the start.
    try:
        import urllib3
        from minio import Minio
    except ImportError as error:
        raise ConfigError(
            "backup.s3_endpoint: backups to S3 need the package minio: "
            'pipx inject socialpub-client minio, or pip install "socialpub[s3]"'
        ) from error
    endpoint = urlsplit(settings.s3_endpoint)
    pool = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        retries=urllib3.Retry(total=RETRIES, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504), redirect=0),
        cert_reqs="CERT_REQUIRED",
        ca_certs=os.environ.get("SSL_CERT_FILE") or certifi.where(),
    )
    return Minio(
        endpoint.netloc,
        access_key=settings.s3_access_key,
        secret_key=settings.s3_secret_key,
        secure=endpoint.scheme == "https",
        region=settings.s3_region,
        http_client=pool,
    )
