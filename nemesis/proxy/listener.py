"""The proxies: for each writer and service a listener on loopback. They run in a thread of their own with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from nemesis.faults.fields import Service
from nemesis.proxy.board import Board, RequestPlan
from nemesis.proxy.connection import Connection, quietly
from nemesis.proxy.outcome import Outcome, record
from nemesis.proxy.route import Route, WireName
from nemesis.wires.pipe import Pipe
from nemesis.wires.wire import Request

LAST_ANSWERS = 5.0
"""Seconds that the proxies wait, when they end, for requests that are in flight."""


class Listener:
    """A port on loopback that stands for the service at the end of a route."""

    def __init__(self, board: Board, route: Route) -> None:
        self.board = board
        self.route = route
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._adopted: set[asyncio.Task[None]] = set()

    @property
    def host(self) -> str:
        """The address that it listens on: always loopback."""
        return "127.0.0.1"

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Listen on a free port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Pipe(self._accept), self.host, 0, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self, client: Pipe) -> None:
        connection = Connection(self.route, self.board, client, self._note, self._adopt)
        self._connections.add(connection)
        task = asyncio.ensure_future(connection.run())
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._connections.discard(connection)
            quietly(task)

        task.add_done_callback(done)

    def _adopt(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry on with ``work``, even when its connection ends."""
        task = asyncio.ensure_future(work)
        self._adopted.add(task)
        task.add_done_callback(self._adopted.discard)

    @property
    def busy(self) -> bool:
        """Whether a request is in flight."""
        return bool(self._adopted) or any(c.busy for c in self._connections)

    def _note(self, request: Request, outcome: Outcome, plan: RequestPlan) -> None:
        """Log a request."""
        self.board.log(record(self.route, request, outcome, plan, self.board.now()))

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            self._server.close()
        for task in [*self._tasks, *self._adopted]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._adopted, return_exceptions=True)


class Proxies:
    """Any number of listeners in one thread; use in ``with``. At the end of it all faults end, and requests in flight get a few seconds."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="nemesis-proxies", daemon=True)
        self._listeners: list[Listener] = []
        self._ready = threading.Event()

    def __enter__(self) -> Proxies:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.board.heal()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(LAST_ANSWERS + 10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def listen(self, service: Service, writer: int | None, protocol: WireName, host: str, port: int) -> Listener:
        """Start a listener in front of ``host:port``. Raises OSError when no port is free."""
        listener = Listener(self.board, Route(service, writer, protocol, (host, port)))
        asyncio.run_coroutine_threadsafe(listener.start(), self._loop).result(10)
        self._listeners.append(listener)
        return listener

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _end(self) -> None:
        ends = self._loop.time() + LAST_ANSWERS
        while any(x.busy for x in self._listeners) and self._loop.time() < ends:
            await asyncio.sleep(0.01)
        for listener in self._listeners:
            await listener.stop()
