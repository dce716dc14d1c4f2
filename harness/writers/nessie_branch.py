"""Commits to several tables at once with Nessie, on the writer's side: commit on a branch, then merge the branch into main.

A merge is one commit of Nessie's own: the contents of all keys that the branch changed become main's at once, or Nessie refuses because main
has changed one of them since the branch was made (``POST /api/v2/trees/{branch}/history/merge`` of Nessie's OpenAPI, merge mode NORMAL).

The standard library only, since writers of any Spark version use it.
"""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

MAIN = "main"
TIMEOUT_S = 30.0
"""As long as Iceberg's client waits for an answer (``compose.catalogs.catalog.SOCKET_TIMEOUT_MS``)."""


class Conflict(Exception):
    """The merge was refused: main has other contents of a table that the branch changed. Nothing was merged."""


class Branch:
    """A branch off main's tip that exists inside ``with``.

    Args:
        uri: any URL of the server; the API is below ``/api/v2`` of its host and port.
        name: unique name of the branch.

    Raises:
        OSError: the server does not answer, or answers with an error; the outcome of a :meth:`merge` is then unknown.
    """

    def __init__(self, uri: str, name: str) -> None:
        parts = urlsplit(uri)
        self._api = f"{parts.scheme}://{parts.netloc}/api/v2"
        self.name = name
        self._from = ""

    def __enter__(self) -> Branch:
        base = self._ask("GET", f"trees/{MAIN}")["reference"]
        self._from = base["hash"]
        self._ask("POST", f"trees?name={quote(self.name)}&type=BRANCH", base)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a leftover branch does no harm
            self._ask("DELETE", f"trees/{quote(self.name)}@{self._tip()}")

    def merge(self) -> None:
        """Merge this branch's commits into main.

        Raises:
            Conflict: Nessie refused the merge.
        """
        body = {"fromRefName": self.name, "fromHash": self._tip(), "message": self.name}
        try:
            self._ask("POST", f"trees/{MAIN}@{self._from}/history/merge", body)
        except urllib.error.HTTPError as e:
            if e.code == 409:
                raise Conflict(e.reason) from None
            raise

    def _tip(self) -> str:
        return str(self._ask("GET", f"trees/{quote(self.name)}")["reference"]["hash"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._api}/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as e:
            raise urllib.error.HTTPError(e.url, e.code, _message(e), e.headers, None) from None
        return json.loads(text) if text else None


def _message(error: urllib.error.HTTPError) -> str:
    """The server's error message, or the beginning of its answer."""
    text = error.read(4000).decode("utf-8", "replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.reason}: {text[:300]}"
