"""The gate: hold one operation's commit request at the catalog's door until something else has happened.

Two writers that race are a matter of luck; two writers of which one scanned before the other's commit and commits after it are a
test. A :class:`CatalogGate` stands between one writer and an Iceberg REST catalog. It passes everything on as it is, except
that the first commit request (``POST …/namespaces/{ns}/tables/{table}``, REST catalog specification, "updateTable") that
carries a held operation's id in its new snapshot's summary waits until the hold is released. The client meanwhile sees a slow
catalog, nothing else; unless the hold says that what it gets at last is an error (:class:`Answer`). The gate runs in a thread of
its own with an event loop of its own; holds may be used from any thread.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

import aiohttp
from aiohttp import web
from yarl import URL

COMMIT_PATH = re.compile(r"/v1/(?:[^/]+/)*namespaces/[^/]+/tables/[^/]+$")
SUMMARY_KEY = "icequake-op"
HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to one connection and are not passed on (RFC 9110 §7.6.1)."""

MAX_BODY = 256 << 20
LAST_ANSWERS = 5.0
"""Seconds that requests which are under way get when the gate is left."""


def committed_ops(body: bytes) -> set[str]:
    """The operation ids in the summaries of the snapshots that a table-commit request adds; empty for anything else."""
    try:
        updates = json.loads(body).get("updates", [])
        snapshots = [u.get("snapshot") or {} for u in updates if u.get("action") == "add-snapshot"]
        return {s["summary"][SUMMARY_KEY] for s in snapshots if SUMMARY_KEY in s.get("summary", {})}
    except (ValueError, AttributeError, TypeError):
        return set()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the writer gets in place of the catalog's answer to its commit: as a proxy or a load balancer in between does.

    Attributes:
        status: of the answer, such as 503.
        retry_after: seconds in its ``Retry-After`` header; none when not given.
        late: the writer gets it at once, and the commit goes to the catalog when the hold is released (a "zombie"). Otherwise
            the catalog applies the commit at once, and the writer gets the answer when the hold is released.
    """

    status: int
    retry_after: int | None = None
    late: bool = False

    def response(self) -> web.Response:
        """It as an answer of a REST catalog (specification, "ErrorModel")."""
        body = {"error": {"message": "answered by the gate", "type": "GateException", "code": self.status}}
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return web.json_response(body, status=self.status, headers=headers)


class Hold:
    """One held operation. ``reached`` is set when its commit request has arrived, or with an :class:`Answer`, was applied or
    answered; ``release`` lets it pass; ``passed`` is set when the catalog has answered it. ``problem``: why it was not as it was to be."""

    def __init__(self, op: str, answer: Answer | None = None) -> None:
        self.op = op
        self.answer = answer
        self.reached = threading.Event()
        self.passed = threading.Event()
        self.problem: str | None = None
        self._released = threading.Event()

    def release(self) -> None:
        """Let the request pass; idempotent, also before it has come."""
        self._released.set()

    @property
    def released(self) -> bool:
        """Whether it may pass."""
        return self._released.is_set()


class CatalogGate:
    """A listener on loopback in front of one REST catalog; use in ``with``.

    Args:
        upstream: the catalog's base URL, such as ``http://127.0.0.1:8181``.
        longest_hold: seconds after which a hold gives way by itself, so that a test that forgot it ends.
    """

    def __init__(self, upstream: str, *, longest_hold: float = 120.0) -> None:
        self._upstream = upstream.rstrip("/")
        self._longest = longest_hold
        self._holds: dict[str, Hold] = {}
        self._made: list[Hold] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="catalog-gate", daemon=True)
        self._error: BaseException | None = None
        self._port = 0
        self._open = 0
        self._late_ones: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Base URL that the writer is to use."""
        return f"http://127.0.0.1:{self._port}"

    def hold(self, op: str, answer: Answer | None = None) -> Hold:
        """Hold the first commit request of operation ``op``; with ``answer``, what the writer gets is that."""
        self._holds[op] = hold = Hold(op, answer)
        self._made.append(hold)
        return hold

    def clear(self) -> None:
        """Forget all holds; what is held passes."""
        self._holds.clear()
        for hold in self._made:
            hold.release()
        self._made.clear()

    def __enter__(self) -> CatalogGate:
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hold in self._made:
            hold.release()
        if self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        except BaseException as e:
            self._error = e
        finally:
            self._ready.set()
            self._loop.close()

    async def _main(self) -> None:
        self._stopping = asyncio.Event()
        timeout = aiohttp.ClientTimeout(total=None, connect=10)
        async with aiohttp.ClientSession(auto_decompress=False, timeout=timeout) as client:

            async def handle(request: web.Request) -> web.StreamResponse:
                self._open += 1
                try:
                    answer = await self._pass(request, client)
                    await answer.prepare(request)
                    await answer.write_eof()
                    return answer
                finally:
                    self._open -= 1

            app = web.Application(client_max_size=MAX_BODY)
            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=1)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                self._port = runner.addresses[0][1]
                self._ready.set()
                await self._stopping.wait()
                ends = self._loop.time() + LAST_ANSWERS
                while (self._open or self._late_ones) and self._loop.time() < ends:
                    await asyncio.sleep(0.01)
            finally:
                await runner.cleanup()

    async def _pass(self, request: web.Request, client: aiohttp.ClientSession) -> web.StreamResponse:
        body = await request.read()
        hold = None
        if request.method == "POST" and COMMIT_PATH.search(request.path):
            hold = self._take(committed_ops(body))
        if hold is None:
            return await self._forward(request, body, client)
        if hold.answer is not None and hold.answer.late:
            hold.reached.set()
            late = asyncio.create_task(self._late(hold, request, body, client))
            self._late_ones.add(late)
            late.add_done_callback(self._late_ones.discard)
            return hold.answer.response()
        if hold.answer is None:
            hold.reached.set()
            await self._released(hold)
        try:
            answer = await self._forward(request, body, client)
        finally:
            hold.passed.set()
        if hold.answer is None:
            return answer
        hold.reached.set()
        await self._released(hold)
        if answer.status >= 300:
            hold.problem = f"the catalog refused it ({answer.status}), so nothing was applied"
            return answer
        return hold.answer.response()

    async def _late(self, hold: Hold, request: web.Request, body: bytes, client: aiohttp.ClientSession) -> None:
        try:
            await self._released(hold)
            answer = await self._forward(request, body, client)
            if answer.status >= 300:
                hold.problem = f"the catalog refused it ({answer.status}), so nothing was applied"
        except aiohttp.ClientError as e:
            hold.problem = f"it did not reach the catalog: {e}"
        finally:
            hold.passed.set()

    async def _forward(self, request: web.Request, body: bytes, client: aiohttp.ClientSession) -> web.Response:
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP]
        target = URL(self._upstream + request.raw_path, encoded=True)  # as it came: a%1Fb stays a%1Fb
        async with client.request(
            request.method,
            target,
            headers=headers,
            data=io.BytesIO(body) if body else None,
            allow_redirects=False,
            skip_auto_headers=_AUTO,
        ) as answer:
            kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP | {"content-length"}]
            return web.Response(
                status=answer.status, reason=answer.reason, headers=_multi(kept), body=await answer.read()
            )

    def _take(self, ops: set[str]) -> Hold | None:
        for op in sorted(ops):
            if op in self._holds:
                return self._holds.pop(op)  # the first request only: retries pass
        return None

    async def _released(self, hold: Hold) -> None:
        ends = self._loop.time() + self._longest
        while not hold.released and self._loop.time() < ends:
            await asyncio.sleep(0.01)
        if not hold.released:
            hold.problem = f"it was not released within {self._longest:g} s, and gave way"


_AUTO = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


def _multi(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for k, v in pairs:
        joined[k] = f"{joined[k]}, {v}" if k in joined else v
    return joined
