"""Services that the user supplies: a catalog, an object store, a Spark cluster. icequake connects to them and never starts them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from compose.catalogs.addresses import AddressError, masters, spark_master, store_address
from compose.catalogs.user_file import UserCatalogFile
from compose.endpoints import is_local
from compose.processes.ports import LOOPBACK

DEFAULT_REGION = "us-east-1"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "[::1]")


class ExternalError(ValueError):
    """An address or a credential of a user-supplied service that cannot be used; one line with the remedy."""


@dataclass(frozen=True)
class Store:
    """An S3 store.

    Attributes:
        endpoint: ``http://host:port``.
        prefix: folder in the bucket below which everything is written, without slashes around it; may be empty.
    """

    endpoint: str
    bucket: str
    prefix: str
    access_key: str
    secret_key: str
    region: str

    @property
    def warehouse(self) -> str:
        """Bucket and prefix as a path, without scheme."""
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    @property
    def shown(self) -> str:
        """The address as the user gave it; it contains no secret."""
        return f"{self.endpoint}/{self.warehouse}"


def store(
    url: str, spark: Mapping[str, str], environment: Mapping[str, str] | None = None, option: str = "--s3"
) -> Store:
    """The store at ``http://host:9000/bucket[/prefix]``.

    Args:
        option: where the address was given: an option, or a file and its key.
        spark: the properties of the user's catalog; its credentials (``s3.access-key-id``, …) come first, if it has them.
        environment: where ``AWS_ACCESS_KEY_ID``, … are looked up otherwise; this process's environment when None.

    Raises:
        ExternalError: the address has another form, or there are no credentials.
    """
    known = os.environ if environment is None else environment
    try:
        parts = store_address(url)
    except AddressError as e:
        raise ExternalError(f"{option}{e}") from None
    bucket, _, prefix = parts.path.strip("/").partition("/")
    access = spark.get("s3.access-key-id") or known.get("AWS_ACCESS_KEY_ID")
    secret = spark.get("s3.secret-access-key") or known.get("AWS_SECRET_ACCESS_KEY")
    for name, key, value in (
        ("AWS_ACCESS_KEY_ID", "s3.access-key-id", access),
        ("AWS_SECRET_ACCESS_KEY", "s3.secret-access-key", secret),
    ):
        if not value:
            text = f"the environment variable {name} is not set; export {name}=…, or give {key} under spark: of your catalog file"
            raise ExternalError(f"the store {url}: {text}")
    region = spark.get("client.region") or known.get("AWS_REGION") or known.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
    host = parts.netloc if parts.port is not None else parts.hostname
    return Store(f"{parts.scheme}://{host}", bucket, prefix.strip("/"), access or "", secret or "", region)


@dataclass(frozen=True)
class External:
    """The services of a run that the user supplies; icequake starts those that are None.

    Attributes:
        master: Spark's master URL, such as ``spark://host:7077`` or ``local[4]``.
    """

    catalog: UserCatalogFile | None = None
    store: Store | None = None
    master: str | None = None

    def __bool__(self) -> bool:
        return bool(self.catalog or self.store or self.master)

    @property
    def secrets(self) -> dict[str, str]:
        """Words that must not be written to any file or shown, each → the key or the variable whose secret it is."""
        key = {} if self.store is None else {self.store.secret_key: "AWS_SECRET_ACCESS_KEY"}
        return key | (self.catalog.secrets if self.catalog else {})

    @property
    def plain(self) -> dict[str, str]:
        """For the plan of a run: where each user-supplied service is, without secrets."""
        found = {
            "catalog": self.catalog and self.catalog.file,
            "store": self.store and self.store.shown,
            "spark": self.master,
        }
        return {k: v for k, v in found.items() if v}


def external(
    catalog: UserCatalogFile | None, s3: str | None, master: str | None, environment: Mapping[str, str] | None = None
) -> External:
    """The user-supplied services of a run; the options ``s3`` and ``master`` override the catalog's file.

    Raises:
        ExternalError: one of them cannot be used, or they cannot be used together.
    """
    spark = catalog.spark if catalog else {}
    option = "--s3" if s3 or not catalog else f"{catalog.file}: s3:"
    s3 = s3 or (catalog.s3 if catalog else None)
    master = master or (catalog.master if catalog else None)
    found = External(catalog, store(s3, spark, environment, option) if s3 else None, master)
    if master is not None:
        hosts = masters(master)
        try:
            spark_master(master)
        except AddressError as e:
            raise ExternalError(f"--spark {master}: {e}") from None
        if not is_local(master) and found.store is None and not (hosts and all(h in _LOCAL_HOSTS for h, _ in hosts)):
            raise ExternalError(
                f"--spark {master}: its executors cannot reach the object store that would be started here; give one with --s3"
            )
    return found


def driver_host(master: str | None) -> str:
    """The address of this machine at which a cluster's executors reach the drivers: the one from which this machine reaches the cluster."""
    for host, port in masters(master or ""):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)  # UDP: nothing is sent
                return str(probe.getsockname()[0])
        except OSError:
            continue
    if master is None or is_local(master):
        return LOOPBACK
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return LOOPBACK
