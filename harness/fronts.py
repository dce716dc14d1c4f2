"""The proxies of a run: each writer reaches the catalog and the object store through a listener of its own (``nemesis.proxy``)."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from compose.stack import Endpoints
from nemesis.board import Board
from nemesis.faults import Service
from nemesis.proxy import Listener, Protocol, Proxies


class Fronts:
    """Listeners, made when a writer is first launched and kept for its replacements.

    Args:
        proxies: running.
        store: whether the object store is fronted too; a listener of its own costs every byte of data a way through this process.
    """

    def __init__(self, proxies: Proxies, *, store: bool = True) -> None:
        self.board: Board = proxies.board
        self._proxies = proxies
        self._store = store
        self._made: dict[tuple[Service, int], Listener] = {}

    def __call__(self, writer: str, endpoints: Endpoints) -> Endpoints:
        """The endpoints as the writer of that name (``w0`` …) is to see them."""
        n = int(writer.removeprefix("w"))
        host, port = _address(endpoints.catalog_uri)
        catalog = self._listener("catalog", n, "http", host, port)
        seen = replace(endpoints, catalog_uri=_at(endpoints.catalog_uri, catalog))
        if self._store:
            host, port = _address(endpoints.s3)
            seen = replace(seen, s3=_at(endpoints.s3, self._listener("store", n, "s3", host, port)))
        return seen

    def _listener(self, service: Service, writer: int, protocol: Protocol, host: str, port: int) -> Listener:
        key = (service, writer)
        if key not in self._made:
            self._made[key] = self._proxies.listen(service, writer, protocol, host, port)
        return self._made[key]


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or (443 if parts.scheme == "https" else 80)


def _at(url: str, listener: Listener) -> str:
    return urlsplit(url)._replace(netloc=listener.address).geturl()


def direct(_: str, endpoints: Endpoints) -> Endpoints:
    """No proxies: every writer sees the endpoints as they are."""
    return endpoints
