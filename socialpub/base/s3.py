"""A bucket of an S3-compatible store, for backups: whole files in and out, by the operator's own settings.

It is spoken to by the package `minio`, which is not in the base install (`pip install "socialpub[s3]"`) and is read
only where a bucket is named. Its calls have bounds of their own: time, tries, and a part of a file in memory at once.
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

from socialpub.base.config import BackupSettings, ConfigError

CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
RETRIES = 3
PART_BYTES = 16 * 1024 * 1024  # in memory at once
CHUNK_BYTES = 1024 * 1024
OBJECTS_MAX = 10_000

ProgressCallback = Callable[[int], None]
"""Told how many bytes more have gone."""

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
    """The store cannot be used so; the message says why."""


@dataclass(frozen=True)
class S3Object:
    name: str
    size: int


def check_settings(settings: BackupSettings) -> None:
    """ConfigError where a bucket is named and the package for it is not there."""
    if settings.s3_endpoint:
        _make_client(settings)


class S3Bucket:
    """What is under one prefix of a bucket. BucketError for whatever goes wrong."""

    def __init__(self, settings: BackupSettings) -> None:
        self._settings, self._client = settings, _make_client(settings)

    def where(self, name: str = "") -> str:
        """The address of a file, for people."""
        return f"s3://{self._settings.s3_bucket}/{self._key(name)}"

    def put(self, path: Path, name: str, moved: ProgressCallback) -> None:
        """A file under a name; it is there once all of it is."""
        size = path.stat().st_size
        with self._told(name), path.open("rb") as file:
            data: Any = _ProgressReader(file, moved)
            bucket, part = self._settings.s3_bucket, PART_BYTES if size > PART_BYTES else 0
            self._client.put_object(bucket, self._key(name), data, size, part_size=part, num_parallel_uploads=1)
            there = self._client.stat_object(bucket, self._key(name)).size
        if there != size:
            raise S3BucketError(f"{self.where(name)}: {there} of {size} bytes came there.")

    def get(self, name: str, into: IO[bytes], moved: ProgressCallback) -> None:
        with self._told(name):
            answer = self._client.get_object(self._settings.s3_bucket, self._key(name))
            try:
                for chunk in answer.stream(CHUNK_BYTES):
                    into.write(chunk)
                    moved(len(chunk))
            finally:
                answer.close()
                answer.release_conn()

    def size(self, name: str) -> int:
        with self._told(name):
            return int(self._client.stat_object(self._settings.s3_bucket, self._key(name)).size or 0)

    def listed(self) -> list[S3Object]:
        """The files right under the prefix."""
        with self._told(""):
            found = []
            for each in self._client.list_objects(self._settings.s3_bucket, prefix=self._key("")):
                name = str(each.object_name).removeprefix(self._key(""))
                if name and not each.is_dir:
                    found.append(S3Object(name, int(each.size or 0)))
                if len(found) == OBJECTS_MAX:
                    break
            return found

    def remove(self, name: str) -> None:
        with self._told(name):
            self._client.remove_object(self._settings.s3_bucket, self._key(name))

    def _key(self, name: str) -> str:
        prefix = self._settings.s3_prefix.strip("/")
        return f"{prefix}/{name}" if prefix else name

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Whatever the package raises, in our words."""
        from minio.error import MinioException, S3Error
        from urllib3.exceptions import HTTPError

        try:
            yield
        except S3Error as error:
            said = _ERROR_TEXTS.get(error.code or "") or f"{error.code}: {error.message}"
            raise S3BucketError(f"{self.where(name)}: {said}.") from error
        except HTTPError as error:
            raise S3BucketError(f"{self.where(name)}: {self._settings.s3_endpoint} cannot be reached.") from error
        except (MinioException, ValueError) as error:
            raise S3BucketError(
                f"{self.where(name)}: the store answers what S3 does not ({type(error).__name__})."
            ) from error


class _ProgressReader:
    """A file that tells how much of it was read."""

    def __init__(self, file: IO[bytes], moved: ProgressCallback) -> None:
        self._file, self._moved = file, moved

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(min(size, CHUNK_BYTES) if size >= 0 else CHUNK_BYTES)
        self._moved(len(chunk))
        return chunk


def _make_client(settings: BackupSettings) -> Any:
    # Read where it is needed: the base install does not have it, and a server without a bucket need not wait for it.
    try:
        import urllib3
        from minio import Minio
    except ImportError as error:
        raise ConfigError(
            "backup.s3_endpoint: backups to S3 need the package minio: "
            'pipx inject socialpub minio, or pip install "socialpub[s3]"'
        ) from error
    at = urlsplit(settings.s3_endpoint)
    pool = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        retries=urllib3.Retry(total=RETRIES, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504), redirect=0),
        cert_reqs="CERT_REQUIRED",
        ca_certs=os.environ.get("SSL_CERT_FILE") or certifi.where(),
    )
    return Minio(
        at.netloc,
        access_key=settings.s3_access_key,
        secret_key=settings.s3_secret_key,
        secure=at.scheme == "https",
        region=settings.s3_region,
        http_client=pool,
    )
