"""The object store: one MinIO server with one drive, on loopback."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from compose.install.installation import Installation
from compose.processes.ports import LOOPBACK, Ports
from compose.processes.process import LocalProcess, NotReady, base_environment, http_get

ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "admin", "password", "us-east-1", "warehouse"

# For clients that use an AWS SDK: ignore the user's own configuration and never query a metadata service.
AWS_ENVIRONMENT = {
    "AWS_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Minio(LocalProcess):
    """MinIO with the bucket ``warehouse``. SIGKILL loses no acknowledged write: the kernel has the data."""

    role = "store"

    def __init__(self, binary: Path, *, run_id: str, ports: Ports, data: Path, log: Path):
        super().__init__("minio", run_id=run_id, ports=ports, port_names=["minio"], folder=data, log=log)
        self._binary = binary

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port()}"

    def prepare(self) -> None:
        (self._drive / BUCKET).mkdir(parents=True, exist_ok=True)  # a folder of the drive is a bucket

    def argv(self) -> Sequence[str]:
        return [
            *(str(self._binary), "server", "--quiet", "--address", f"{LOOPBACK}:{self.port()}"),
            *("--certs-dir", str(self.folder / "certs"), str(self._drive)),
        ]

    def environment(self) -> Mapping[str, str]:
        return {
            **base_environment(),
            "MINIO_ROOT_USER": ACCESS_KEY,
            "MINIO_ROOT_PASSWORD": SECRET_KEY,
            "MINIO_BROWSER": "off",  # no console, no second port
            "MINIO_UPDATE": "off",  # do not ask for a newer release
        }

    def probe(self, timeout: float) -> None:
        # /minio/health/ready answers 200 already while each request of S3 is answered by 503 XMinioServerNotInitialized.
        status, _ = http_get(f"{self.endpoint}/minio/health/cluster", timeout)
        if status != 200:
            raise NotReady(f"/minio/health/cluster answers {status}")

    @property
    def _drive(self) -> Path:
        return self.folder / "drive"


def version(installation: Installation) -> str:
    """The release that the program was built from."""
    return installation.minio.name.removeprefix("minio-")
