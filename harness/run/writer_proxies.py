"""The proxies of a run: each writer reaches the catalog and the object store through a listener of its own (``nemesis.proxy``)."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from compose.catalogs.registry import catalog_of
from compose.endpoints import Endpoints
from nemesis.faults.fields import Service
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Listener, Proxies
from nemesis.proxy.route import WireName


class WriterProxies:
    """Listeners, made when a writer is first launched and kept for its replacements.

    Args:
        proxies: running.
        store: whether the object store gets proxies too; then all data passes through this process.
    """

    def __init__(self, proxies: Proxies, *, store: bool = True) -> None:
        self.board: Board = proxies.board
        self._proxies = proxies
        self._store = store
        self._made: dict[tuple[Service, int | None], Listener] = {}

    def __call__(self, writer: str, endpoints: Endpoints) -> Endpoints:
        """The endpoints as the writer of that name (``w0`` …) sees them."""
        n = int(writer.removeprefix("w"))
        catalog, seen = catalog_of(endpoints), endpoints
        if catalog.wire not in (None, "s3"):
            listener = self._listener("catalog", n, catalog.wire, *catalog.address(endpoints))
            seen = catalog.through(endpoints, listener.host, listener.port)
        url = urlsplit(endpoints.s3)
        if (
            (self._store or catalog.wire == "s3" or endpoints.guard)
            and url.scheme == "http"
            and (endpoints.near or not endpoints.ship_jars)
        ):
            owner = None if catalog.hands_out_store else n  # None: one listener, which the writers share
            listener = self._listener("store", owner, "s3", url.hostname or "127.0.0.1", url.port or 80)
            seen = replace(seen, s3=url._replace(netloc=listener.address).geturl())
        return seen

    def unproxied(self, endpoints: Endpoints) -> list[str]:
        """The services without a proxy, and why: faults of connections cannot strike there."""
        catalog, found = catalog_of(endpoints), []
        if catalog.wire is None:
            why = "its file has no key `commit`" if endpoints.own is not None else "it has no server"
            found.append(f"no proxy before the catalog {catalog.name}: {why}")
        if self._store and urlsplit(endpoints.s3).scheme != "http":
            found.append(f"no proxy before the store {endpoints.s3}: a proxy cannot read encrypted requests")
        elif self._store and endpoints.ship_jars and not endpoints.near:
            found.append(
                "no proxy before the store: the executors run on other machines, the proxies listen on this machine's loopback"
            )
        return found

    def store(self, host: str, port: int) -> tuple[str, int]:
        """The store's address for a catalog server that passes it to its clients: one listener before ``host:port``, shared by all
        clients."""
        if not self._store:
            return host, port
        listener = self._listener("store", None, "s3", host, port)
        return listener.host, listener.port

    def database(self, host: str, port: int) -> tuple[str, int]:
        """The address at which a catalog server reaches its database: a listener before ``host:port``."""
        listener = self._proxies.listen("database", None, "postgres", host, port)
        return listener.host, listener.port

    def _listener(self, service: Service, writer: int | None, protocol: WireName, host: str, port: int) -> Listener:
        key = (service, writer)
        if key not in self._made:
            self._made[key] = self._proxies.listen(service, writer, protocol, host, port)
        return self._made[key]
