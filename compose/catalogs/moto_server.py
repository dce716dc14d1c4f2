"""Glue and DynamoDB on loopback, by moto, with a journal, because moto keeps everything in memory. Runs in moto's own Python environment.

    python moto_server.py PORT JOURNAL [compare]

Every request that changes something is written to the journal before it is answered, and the server plays the journal when it starts. So what
was acknowledged survives SIGKILL. With ``compare``, an UpdateTable of Glue whose VersionId is not the table's is refused with
ConcurrentModificationException, as by the real Glue; moto ignores the VersionId.
"""

import base64
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

CHANGES = ("Create", "Update", "Delete", "Put", "Batch", "Transact", "Tag", "Untag")
GET_TABLE, UPDATE_TABLE = "AWSGlue.GetTable", "AWSGlue.UpdateTable"

Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


def replace(path: Path, content: bytes) -> None:
    """Put a new file in the place of ``path``. A process killed at any point leaves the old content or the new one, both complete."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


class Journalled:
    """A WSGI application that serves one request at a time and writes those that change something to the journal."""

    def __init__(self, app: App, journal: Path, *, compare: bool) -> None:
        self._app = app
        self._compare = compare
        self._lock = threading.Lock()
        if journal.exists():
            # A last line without its end was never answered.
            whole = [line for line in journal.read_bytes().split(b"\n")[:-1] if line]
            for line in whole:
                entry = json.loads(line)
                self._do(entry["environ"], base64.b64decode(entry["body"]))
            replace(journal, b"".join(line + b"\n" for line in whole))
        self._journal = journal.open("ab", buffering=0)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def __call__(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
        plain = {k: v for k, v in environ.items() if isinstance(v, str) and "." not in k}
        with self._lock:
            status, headers, answer = self._refusal(target, plain, body) or self._do(plain, body)
            if status.startswith("2") and target.rpartition(".")[2].startswith(CHANGES):
                entry = {"environ": plain, "body": base64.b64encode(body).decode()}
                self._journal.write(json.dumps(entry).encode() + b"\n")
        start_response(status, headers)
        return [answer]

    def _do(self, plain: dict[str, str], body: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
        reply: list[Any] = ["500 no answer", []]

        def start(status: str, headers: list[tuple[str, str]], _: Any = None) -> Callable[[bytes], None]:
            reply[:] = [status, headers]
            return lambda data: None

        environ = {
            **plain,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "CONTENT_LENGTH": str(len(body)),
        }
        answer = b"".join(self._app(environ, start))
        return reply[0], reply[1], answer

    def _refusal(
        self, target: str, plain: dict[str, str], body: bytes
    ) -> tuple[str, list[tuple[str, str]], bytes] | None:
        """The answer to an UpdateTable of an older version than there is; None when it may go on."""
        if not self._compare or target != UPDATE_TABLE:
            return None
        wanted = json.loads(body)
        if "VersionId" not in wanted:
            return None
        question = {"DatabaseName": wanted["DatabaseName"], "Name": wanted["TableInput"]["Name"]}
        status, _, answer = self._do({**plain, "HTTP_X_AMZ_TARGET": GET_TABLE}, json.dumps(question).encode())
        if not status.startswith("2") or str(json.loads(answer)["Table"]["VersionId"]) == str(wanted["VersionId"]):
            return None
        error = {
            "__type": "ConcurrentModificationException",
            "Message": f"Update table failed due to concurrent modifications: VersionId {wanted['VersionId']} is not the table's.",
        }
        text = json.dumps(error).encode()
        headers = [
            ("Content-Type", "application/x-amz-json-1.1"),
            ("Content-Length", str(len(text))),
            ("x-amzn-ErrorType", error["__type"]),
        ]
        return "400 BAD REQUEST", headers, text


def main(port: int, journal: Path, *, compare: bool) -> None:
    """Serve until the process is ended."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    WSGIRequestHandler.protocol_version = "HTTP/1.1"  # connections are kept, as of the real services
    WSGIRequestHandler.log_request = lambda self, *_: None
    app = Journalled(DomainDispatcherApplication(create_backend_app), journal, compare=compare)
    make_server("127.0.0.1", port, app, threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), compare=sys.argv[3:] == ["compare"])
