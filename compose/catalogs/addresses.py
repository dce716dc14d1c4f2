"""Addresses of a store and of Spark masters as a user writes them: in an option, or in the file of a catalog."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from compose.redaction import Redaction

_MASTER = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?|yarn|spark://.+|k8s://.+")


class AddressError(ValueError):
    """What a user wrote is no such address; one line with the remedy, without secrets."""


def store_address(url: str) -> SplitResult:
    """The parts of ``http://host:9000/bucket[/prefix]``. Raises AddressError."""
    form = "give http://host:9000/bucket or http://host:9000/bucket/prefix"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as e:
        raise AddressError(Redaction(()).text(f" {url}: {e}; {form}")) from None
    if parts.username or parts.password:
        raise AddressError(": give credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not in the address")
    bucket = parts.path.strip("/").partition("/")[0]
    if parts.scheme not in ("http", "https") or not parts.hostname or not bucket or parts.query or parts.fragment:
        raise AddressError(Redaction(()).text(f" {url}: {form}"))
    return parts


def spark_master(text: str) -> str:
    """The address of a Spark master, of whatever kind. Raises AddressError."""
    if not _MASTER.fullmatch(text) or (text.startswith("spark://") and not masters(text)):
        raise AddressError(
            "no Spark master; give spark://host:7077, several separated by commas, local[4], yarn or k8s://https://host:port"
        )
    return text


def masters(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of ``spark://host:port,host:port``; empty for another kind of master or a wrong address."""
    found = []
    if master.startswith("spark://"):
        for master_url in master.removeprefix("spark://").split(","):
            host, _, port = master_url.strip().rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                return []
            found.append((host, int(port)))
    return found
