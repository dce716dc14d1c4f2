"""Requests to user-supplied servers through PyIceberg and pyarrow, in a separate process.

PyIceberg's clients have no timeouts: a server that accepts a connection and never answers would block its caller forever. So they run in a
child process, which is killed when it does not answer in time; the next question starts another one. The child also ends when its standard
input is closed, which happens when this process ends for any reason.

The pointer of a table is what the catalog itself answers. For a catalog that stores only a location, PyIceberg would also read the metadata
file, and fail if it cannot. So the child does not let PyIceberg open any file.
"""

from __future__ import annotations

import json
import os
import queue
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compose.processes.process import base_environment
from compose.processes.service import ServiceError
from compose.processes.watchdog import marked_environment
from nemesis.wires.errorpage import readable

PROBE_START_SECONDS = 60.0
DELEGATION = "header.X-Iceberg-Access-Delegation"
"""The property by which PyIceberg says whether it wants credentials for the store from a REST catalog: it does unless this is empty. A server
that has none to hand out, as Polaris without STS, then refuses to load a table."""
PLAIN_HTTP = "no TLS; it speaks plain HTTP: write http://"
"""The text of a ``ProbeError`` of an address with https of a server that has no TLS."""
_PASSED_ON = ("AWS_", "REQUESTS_CA_BUNDLE", "SSL_CERT_")


class ProbeError(Exception):
    """A question that was not answered as it should be; the text says what came instead, in one line.

    Attributes:
        kind: ``refused``, ``unknown host``, ``silent``, ``denied`` (401, 403, a wrong key), ``vending`` (it has no credentials to hand out),
            ``missing``, ``server`` (5xx), or ``other``.
    """

    def __init__(self, kind: str, text: str):
        self.kind = kind
        super().__init__(" ".join(text.split()))


class Probe:
    """The child process. Several threads may use it; it answers one question at a time. Use in ``with``.

    Args:
        name: what to call the server in errors.
        catalogs: at most one: its name, and the properties of ``pyiceberg.catalog.load_catalog``.
        file: the user's file that describes the catalog, for remedies.
        run_id: marks the child, so that the run's watchdog ends it too.
    """

    def __init__(
        self, name: str, catalogs: Mapping[str, Any] | None = None, *, file: str = "", run_id: str = ""
    ) -> None:
        self._name = name
        self._file = file
        self._catalogs = dict(catalogs or {})
        self._run_id = run_id
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def pointer(self, namespace: str, table: str, timeout: float) -> str | None:
        """The location of a table's metadata.json; None when there is no such table.

        Raises ServiceError when the catalog does not say within ``timeout`` seconds.
        """
        try:
            answer = self.ask({"pointer": [namespace, table]}, timeout)
        except ProbeError as e:
            remedy = f'; write {DELEGATION}: "" below pyiceberg: in {self._file}' if e.kind == "vending" else ""
            raise ServiceError(self._name, f"no metadata location of {namespace}.{table}: {e}{remedy}") from e
        return None if answer is None else str(answer)

    def ask(self, question: Mapping[str, Any], timeout: float, *, start: float = PROBE_START_SECONDS) -> Any:
        """Put a question (see ``_answer``). ``start``: seconds that the child has to come up. Raises ProbeError."""
        with self._lock:
            if self._child is None or self._child.poll() is not None:
                self._start(start)
            assert self._child is not None and self._child.stdin is not None
            try:
                self._child.stdin.write(json.dumps(dict(question)).encode() + b"\n")
                self._child.stdin.flush()
                answer = self._line(timeout)
            except (OSError, ValueError) as e:
                self._end()
                raise ProbeError("other", f"{type(e).__name__}: {e}") from e
            if answer is None:
                self._end()
                raise ProbeError("silent", f"no answer within {timeout:.0f} s")
        if "error" in answer:
            raise ProbeError(*answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """End the child; idempotent."""
        with self._lock:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, timeout: float) -> None:
        self._end()
        known = {k: v for k, v in os.environ.items() if k.startswith(_PASSED_ON)}
        environment = {**base_environment(), **known, "PYTHONPATH": str(Path(__file__).parents[2])}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "compose.catalogs.probe"],
            env=marked_environment(environment, self._run_id) if self._run_id else environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # the terminal's Ctrl-C is for the harness alone
        )
        assert self._child.stdin is not None
        try:
            # Secrets go this way: everybody may read a process's arguments.
            self._child.stdin.write(json.dumps(self._catalogs).encode() + b"\n")
            ready = self._line(timeout)
        except (OSError, ValueError) as e:
            self._end()
            raise ProbeError("other", f"the probe's process ended at once: {type(e).__name__}: {e}") from e
        if ready is None:
            self._end()
            raise ProbeError("silent", f"the probe's process is not up after {timeout:.0f} s")

    def _line(self, timeout: float) -> dict[str, Any] | None:
        """The child's next line; None when it does not come in time. Raises OSError when it has ended."""
        assert self._child is not None and self._child.stdout is not None
        out, data, deadline = self._child.stdout.fileno(), b"", time.monotonic() + timeout
        ready = select.poll()  # takes any file descriptor; select() refuses those from 1024 on
        ready.register(out, select.POLLIN)
        while not data.endswith(b"\n"):
            seconds = deadline - time.monotonic()
            if seconds <= 0 or not ready.poll(1000 * seconds):
                return None
            part = os.read(out, 65536)
            if not part:
                raise OSError("the probe's process has ended")
            data += part
        return dict(json.loads(data))

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


# --- the child --------------------------------------------------------------------------------------------------------


NESSIE = "nessie.is-nessie-catalog"
"""What Nessie's REST endpoint says of itself, in the answer to ``/v1/config``."""


class _Found(Exception):
    """The location that PyIceberg was about to read."""


def _answer(catalog: Any, question: Mapping[str, Any]) -> Any:
    """``{"pointer": [namespace, table]}`` → its location or None; ``{"namespaces": true}`` → how many there are, and whether the server is
    Nessie; ``{"store": {…}}`` → what a small object holds after it was written, read and deleted."""
    if "store" in question:
        return _try_store(**question["store"])
    if "namespaces" in question:
        asked = catalog()
        return {"count": len(asked.list_namespaces()), "nessie": asked.properties.get(NESSIE) == "true"}
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    namespace, table = question["pointer"]
    try:
        return catalog().load_table((*namespace.split("."), table)).metadata_location
    except _Found as found:
        return str(found)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _try_store(endpoint: str, key: str, **credentials: Any) -> int:
    from pyarrow import fs

    scheme, _, host = endpoint.rpartition("://")
    system = fs.S3FileSystem(
        endpoint_override=host,
        scheme=scheme,
        connect_timeout=4,
        request_timeout=6,
        background_writes=False,
        **credentials,
    )
    content = b"icequake looks whether it can write here"
    with system.open_output_stream(key) as out:
        out.write(content)
    with system.open_input_file(key) as file:
        back = file.read()
    system.delete_file(key)
    if back != content:
        raise OSError(f"an object read back has {len(back)} other bytes than were written")
    return len(back)


def _catalog_of(catalogs: Mapping[str, Mapping[str, Any]]) -> Any:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.serializers import FromInputFile

    def found(file: Any, *_: Any) -> Any:
        raise _Found(file.location)

    setattr(FromInputFile, "table_metadata", staticmethod(found))  # noqa: B010  # a type that mypy would not have
    name, properties = next(iter(catalogs.items()))
    return load_catalog(name, **{**properties, "py-io-impl": "compose.catalogs.nofiles.NoFiles"})


_HTTP = re.compile(r"\b(?:RESTError |HTTP(?: status)? ?|code: ?)([45]\d\d)\b", re.IGNORECASE)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = next((a for a in getattr(error, "args", ()) if isinstance(a, BaseException)), None)
        inner = inner or getattr(error, "reason", None)
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__


def described(error: BaseException) -> tuple[str, str]:
    """What went wrong, as the kind and the text of a ``ProbeError``."""
    chain = list(_causes(error))
    names = {type(e).__name__ for e in chain}
    texts = " ".join(str(e) for e in chain)
    text = f"{type(error).__name__}: {' '.join(readable(str(error)).split())}"[:400]
    status = _HTTP.search(texts)
    if "NotInstalledError" in names:
        return "other", f"{text} (by {sys.executable} -m pip install …)"
    if "ConnectionRefusedError" in names or re.search(
        r"connection refused|curlCode: 7\b|Could not connect to", texts, re.I
    ):
        return "refused", "connection refused"
    if re.search(r"WRONG_VERSION_NUMBER|record layer failure", texts, re.I):
        return "other", PLAIN_HTTP
    if names & {"gaierror", "NameResolutionError"} or re.search(r"curlCode: 6\b|could not translate host name", texts):
        return "unknown host", "no such host"
    if names & {"TimeoutError", "timeout", "ReadTimeout", "ConnectTimeout"} or re.search(r"curlCode: 28\b", texts):
        return "silent", "no answer in time"
    denied = r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|authentication failed|UnrecognizedClient"
    if names & {"UnauthorizedError", "ForbiddenError", "OAuthError"} or re.search(denied, texts, re.I):
        return "denied", text
    if status is not None and status[1] in ("401", "403"):
        return "denied", text
    if re.search(r"credential vending was requested", texts, re.I):
        return "vending", text
    if names & {"ServerError", "ServiceUnavailableError"} or (status is not None and status[1].startswith("5")):
        return "server", text
    if re.search(r"NO_SUCH_BUCKET|bucket does not exist", texts, re.I) or (status is not None and status[1] == "404"):
        return "missing", text
    return "other", text


def main() -> None:
    """The child: a line of JSON in, a line of JSON out, until its standard input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that a library's prints do not mix with the answers
    catalogs = json.loads(sys.stdin.readline())
    questions: queue.Queue[dict[str, Any]] = queue.Queue()
    loaded: list[Any] = []

    def catalog() -> Any:
        if not loaded:
            loaded.append(_catalog_of(catalogs))
        return loaded[0]

    def say(answer: Mapping[str, Any]) -> None:
        out.write(json.dumps(dict(answer)) + "\n")
        out.flush()

    def work() -> None:
        if catalogs:
            import pyiceberg.catalog  # noqa: F401  # its time is not the server's
        say({"ready": True})
        while True:
            question = questions.get()
            try:
                say({"ok": _answer(catalog, question)})
            except BaseException as e:
                say({"error": described(e)})

    threading.Thread(target=work, daemon=True).start()
    for line in sys.stdin:
        questions.put(json.loads(line))
    os._exit(0)  # also in the middle of a question


if __name__ == "__main__":
    main()
