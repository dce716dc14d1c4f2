"""The cost of a proxy for each request: latency and requests/s through one listener without a fault, beside a plain byte relay.

The proxy, the relay and the service run in their own processes, the first two pinned to one core; this process makes the load.
The service answers fixed bytes at once. Measurements alternate, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import statistics
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from nemesis.proxy.board import Board
from nemesis.proxy.listener import Proxies
from nemesis.proxy.route import WireName

REQUEST = b"GET /v1/namespaces/db/tables/t HTTP/1.1\r\nHost: x\r\n\r\n"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n" + b"x" * 300
ROUNDS, EACH, CONNECTIONS, SECONDS = 10, 200, 8, 3.0
BODY = 64 << 20


class _Service(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._to, self._left = transport, 0

    def data_received(self, data: bytes) -> None:
        if self._left:
            self._left -= len(data)
            if self._left <= 0:
                self._to.write(REPLY)
        elif data.startswith(b"PUT"):
            self._left = BODY - (len(data) - data.index(b"\r\n\r\n") - 4)
        elif data.startswith(b"GET /large"):
            self._to.write(f"HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n".encode() + b"x" * BODY)
        else:
            self._to.write(REPLY)


def _serve(at: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(_Service, "127.0.0.1", 0)
        at.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _relay(at: Connection, port: int) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 18):
            writer.write(part)
            await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async def run() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        at.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _peak() -> float:
    """Most memory that this process had, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def _proxy(at: Connection, port: int, protocol: WireName) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with Proxies(Board()) as proxies:
        at.send(proxies.listen("catalog", 0, protocol, "127.0.0.1", port).port)
        while at.recv() == "peak":
            at.send(_peak())


def _ask(end: socket.socket, request: bytes = REQUEST, size: int = len(REPLY)) -> None:
    end.sendall(request)
    while size > 0:
        part = end.recv(1 << 18)
        if not part:
            raise ConnectionError("the connection ended")
        size -= len(part)


def _connect(port: int) -> socket.socket:
    end = socket.create_connection(("127.0.0.1", port), timeout=60)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


def _latencies(ports: dict[str, int]) -> dict[str, float]:
    """Median seconds of a request, by way."""
    took: dict[str, list[float]] = {way: [] for way in ports}
    ends = {way: _connect(port) for way, port in ports.items()}
    for _ in range(ROUNDS):
        for way, end in ends.items():
            for _ in range(EACH):
                began = time.perf_counter()
                _ask(end)
                took[way].append(time.perf_counter() - began)
    for end in ends.values():
        end.close()
    return {way: statistics.median(t) for way, t in took.items()}


def _rate(port: int) -> float:
    """Requests/s over several connections."""
    counts = [0] * CONNECTIONS
    ends = time.perf_counter() + SECONDS

    def ask(n: int) -> None:
        with _connect(port) as end:
            while time.perf_counter() < ends:
                _ask(end)
                counts[n] += 1

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(CONNECTIONS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(counts) / SECONDS


def main() -> None:
    """Print latency, throughput and memory, one line each."""
    spawn = multiprocessing.get_context("spawn")
    started, pipes = [], []

    def start(target: object, *arguments: object) -> tuple[int, Connection]:
        here, there = spawn.Pipe()
        process = spawn.Process(target=target, args=(there, *arguments), daemon=True)  # type: ignore[arg-type]
        process.start()
        started.append(process)
        pipes.append(here)
        return here.recv(), here

    try:
        service, _ = start(_serve)
        relay, _ = start(_relay, service)
        proxy, _ = start(_proxy, service, "http")
        store, memory = start(_proxy, service, "s3")
        took = _latencies({"direct": service, "relay": relay, "proxy": proxy})
        added = {way: 1e3 * (took[way] - took["direct"]) for way in ("relay", "proxy")}
        print(f"proxy: adds {added['proxy']:.3f} ms to a request (median), a plain relay {added['relay']:.3f} ms")
        rates = {"relay": _rate(relay), "proxy": _rate(proxy)}
        ratio = rates["proxy"] / rates["relay"]
        print(
            f"proxy: {rates['proxy']:,.0f} requests/s on one core, a plain relay {rates['relay']:,.0f}: {ratio:.2f} of it"
        )
        with _connect(store) as end:
            _ask(end)
            memory.send("peak")
            before = memory.recv()
            _ask(end, f"PUT /w/large HTTP/1.1\r\nContent-Length: {BODY}\r\n\r\n".encode() + b"x" * BODY)
            _ask(end, b"GET /large HTTP/1.1\r\n\r\n", len(f"HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n") + BODY)
            memory.send("peak")
            print(f"proxy: {memory.recv() - before:.1f} MB more at its peak for a body of 64 MB up and one down")
    finally:
        for process in started:
            process.terminate()
            process.join(5)
