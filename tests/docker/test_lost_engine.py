"""An engine that goes away in the middle of a run is said in one line."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compose.processes.container import KeptContainer, address, sweep
from compose.processes.service import ServiceError
from tests.docker.conftest import Make, left

pytestmark = pytest.mark.docker


class Line:
    """A socket that leads to the engine until it is cut: what the engine's clients see when it dies."""

    def __init__(self, path: Path, engine: str) -> None:
        self.address = f"unix://{path}"
        self._engine = engine.removeprefix("unix://")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        self._open: list[socket.socket] = []
        self._cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._cut:
                client, _ = self._server.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(self._engine)
                self._open += [client, engine]
                for a, b in ((client, engine), (engine, client)):
                    threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := a.recv(1 << 16):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """End all connections and take no more."""
        self._cut = True
        for one in [self._server, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def line(client: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    if not address().startswith("unix://"):
        pytest.skip("the engine does not listen on a Unix socket")
    made = Line(tmp_path_factory.mktemp("l") / "s", address())
    yield made
    made.cut()


def test_a_lost_engine_is_said_in_one_line(
    client: Any, line: Line, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", line.address)
    stack = make()
    store = stack.services["minio"]
    assert isinstance(store, KeptContainer)
    run_id = store.container.removeprefix("icequake-").removesuffix("-minio")
    try:
        stack.start()
        line.cut()
        with pytest.raises(
            ServiceError, match=r"^minio: needs Docker, and no engine answers \(connection refused\); [^\n]*$"
        ):
            store.kill()
        with pytest.raises(
            ServiceError, match=r"^\w+: needs Docker, and no engine answers \(connection refused\); [^\n]*$"
        ):
            stack.stop()
        assert len(left(client, run_id)) >= 4, "nobody could remove them"
    finally:
        assert sweep(client, run_id)
    assert left(client, run_id) == []
