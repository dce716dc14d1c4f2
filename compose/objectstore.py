"""Reading the object store itself: bytes of an object, whether it exists, what lies below a prefix. Never writes.

A path is what Iceberg's metadata says: ``s3://bucket/key`` (also ``s3a``, ``s3n``), ``file:///path``, ``file:/path``
or a plain path. An absent object is a fact about the table (:class:`FileNotFoundError`); a store that does not answer
is not (:class:`TableReadError`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyarrow import fs

_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)
_FILE = re.compile(r"^file:(//[^/]*)?(?=/)", re.IGNORECASE)


class TableReadError(RuntimeError):
    """The store cannot be read (unreachable, refused, out of time): says nothing about the table. One line."""


class ObjectStore:
    """Objects on S3 (or local files), read-only and thread-safe.

    Args:
        endpoint: ``http://host:port`` of the S3 service; None: Amazon's own.
        access_key, secret_key, region: credentials; None: what the environment gives.
        timeout: bound of one request in seconds; there are up to four tries.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        region: str | None = "us-east-1",
        timeout: float = 10.0,
    ) -> None:
        self._endpoint = endpoint
        self._s3_options: dict[str, Any] = {
            "access_key": access_key,
            "secret_key": secret_key,
            "region": region,
            "connect_timeout": min(5.0, timeout),
            "request_timeout": timeout,
            "background_writes": False,
        }
        if endpoint is not None:
            scheme, _, host = endpoint.rpartition("://")
            self._s3_options |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "http"}
        self._s3: fs.FileSystem | None = None
        self._local = fs.LocalFileSystem()

    def _open(self, path: str) -> tuple[fs.FileSystem, str]:
        if s3 := _S3.match(path):
            if self._s3 is None:
                self._s3 = fs.S3FileSystem(**self._s3_options)
            return self._s3, path[s3.end() :]
        plain = _FILE.sub("", path, count=1)
        if "://" in plain:
            raise TableReadError(f"{path}: only s3://, s3a://, file:// and plain paths can be read")
        return self._local, plain

    def _failed(self, path: str, e: Exception) -> TableReadError:
        where = f" ({self._endpoint})" if self._endpoint and _S3.match(path) else ""
        return TableReadError(f"the store{where} cannot be read at {path}: {' '.join(str(e).split())}")

    def read(self, path: str) -> bytes:
        """The object's bytes.

        Raises:
            FileNotFoundError: there is no such object.
            TableReadError: the store cannot be read.
        """
        system, key = self._open(path)
        try:
            with system.open_input_file(key) as f:
                content: bytes = f.read()
                return content
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except OSError as e:
            raise self._failed(path, e) from None

    def read_many(self, paths: Iterable[str], *, threads: int = 8) -> dict[str, bytes | None]:
        """Path → bytes for every path, fetched in parallel; None for an absent object.

        Raises:
            TableReadError: the store cannot be read.
        """

        def get(path: str) -> bytes | None:
            try:
                return self.read(path)
            except FileNotFoundError:
                return None

        wanted = list(dict.fromkeys(paths))
        if len(wanted) < 2:
            return {p: get(p) for p in wanted}
        with ThreadPoolExecutor(min(threads, len(wanted)), "objectstore") as pool:
            pending = [pool.submit(get, p) for p in wanted]
            try:
                return {p: f.result() for p, f in zip(wanted, pending, strict=True)}
            except BaseException:  # a store that is down takes its time for each object: do not ask for the rest
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def exists(self, path: str) -> bool:
        """Whether there is an object at ``path``.

        Raises:
            TableReadError: the store cannot be read.
        """
        system, key = self._open(path)
        try:
            return bool(system.get_file_info(key).type == fs.FileType.File)
        except OSError as e:
            raise self._failed(path, e) from None

    def sizes(self, prefix: str) -> dict[str, int]:
        """Every object in the folder ``prefix`` and below, spelled as ``prefix`` is, with its bytes, as the listing tells them; none when the
        folder does not exist. A listing is one request for a thousand objects.

        Raises:
            TableReadError: the store cannot be read.
        """
        system, key = self._open(prefix)
        key = key.rstrip("/")
        try:
            infos = system.get_file_info(fs.FileSelector(key, recursive=True, allow_not_found=True))
        except OSError as e:
            raise self._failed(prefix, e) from None
        stem = prefix.rstrip("/")
        return {stem + i.path[len(key) :]: i.size for i in infos if i.type == fs.FileType.File}

    def list(self, prefix: str) -> list[str]:
        """Every object in the folder ``prefix`` and below, sorted, spelled as ``prefix`` is; none when it does not
        exist.

        Raises:
            TableReadError: the store cannot be read.
        """
        return sorted(self.sizes(prefix))
