"""What each address answers. A pure function of the request and the store; it writes nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote

from reports.serve import files, pages
from reports.serve.files import OpenFile, Outside
from reports.serve.index import Index, RunEntry, RunFilter

_HTML = "text/html; charset=utf-8"
_OWN = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_STORED = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox"
)
"""Of a page that lies in the store. Its own policy names its script by a hash, and both apply.

A run may come from anybody, and so may its page: its scripts run in an origin of their own, which may read nothing of this server. They sort
tables and copy commands; links open pages (in another tab, too, which is why new windows are allowed) and download files.
"""
_DATA = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every answer."""
MOST_QUERY = 4_000
"""Characters of a query."""


@dataclass(frozen=True)
class Response:
    """What is sent: ``body`` is bytes, or an open file, which the sender closes."""

    code: int
    body: bytes | OpenFile
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self.body.size if isinstance(self.body, OpenFile) else len(self.body)


class RefusedRequest(ValueError):
    """A request that is answered by an error's page."""

    def __init__(self, code: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.code = code


def answer(index: Index, target: str) -> Response:
    """The answer to GET of a request's target, such as ``/?q=mixed``."""
    path, _, query = target.partition("#")[0].partition("?")
    try:
        return _found(index, path, query)
    except RefusedRequest as e:
        return error(e.code, str(e))
    except Outside:
        return error(HTTPStatus.NOT_FOUND, "There is no such file in the store.")
    except PermissionError:
        return error(HTTPStatus.FORBIDDEN, "The file cannot be read.")


def error(code: HTTPStatus, text: str) -> Response:
    """The page of an error."""
    return _own(pages.error(code, code.phrase, text), code)


def _own(text: str, code: int = 200) -> Response:
    return Response(code, text.encode(errors="replace"), _headers(_HTML, _OWN))


def _headers(content_type: str, policy: str) -> dict[str, str]:
    return {"Content-Type": content_type, "Content-Security-Policy": policy, **SECURITY}


def _found(index: Index, path: str, query: str) -> Response:
    if path == "/":
        return _runs(index, query)
    if path == "/compare":
        return _own(pages.side_by_side(*_pair(index, query)))
    if path == "/store" or path.startswith("/store/"):
        return _stored(index, path.removeprefix("/store"), query)
    raise RefusedRequest(HTTPStatus.NOT_FOUND, "There is no such page.")


def _asked(query: str) -> dict[str, list[str]]:
    if len(query) > MOST_QUERY:
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, "The query is too long.")
    try:
        return parse_qs(query, errors="strict", max_num_fields=32)
    except ValueError:
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, "The query cannot be read.") from None


def _runs(index: Index, query: str) -> Response:
    asked = _asked(query)

    def linked(name: str) -> str:
        return asked.get(name, [""])[-1].strip()

    page = linked("page") or "1"
    if not page.isdecimal() or not page.isascii() or len(page) > 9:
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, "page must be a whole number from 1.")
    chosen = RunFilter(linked("workload"), linked("catalog"), linked("verdict"), linked("q"))
    return _own(pages.runs(index.entries(), chosen, int(page), index.store.name))


def _pair(index: Index, query: str) -> tuple[RunEntry, RunEntry]:
    chosen = _asked(query).get("run", [])
    if len(chosen) != 2:
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"Choose two runs to see them side by side, not {len(chosen)}.")
    known = {e.path: e for e in index.entries()}
    for path in chosen:
        if path not in known:
            raise RefusedRequest(HTTPStatus.NOT_FOUND, "One of the two is no run of the store.")
    return known[chosen[0]], known[chosen[1]]


def _stored(index: Index, address: str, query: str) -> Response:
    found = files.within(index.store, address)
    if not found.is_dir():
        return _file(found)
    if not address.endswith("/"):
        return _moved(f"/store{quote(unquote(address))}/")
    path = found.relative_to(index.store).as_posix().removeprefix(".")
    run = index.find(path)
    if run is not None and run.has_page and query != "files":
        try:
            return _file(files.within(index.store, f"{address}report.html"))
        except Outside:  # a link that leads out of the store
            run = replace(run, has_page=False)
    return _own(pages.folder(path, files.listing(index.store, found), run))


def _moved(where: str) -> Response:
    return Response(HTTPStatus.MOVED_PERMANENTLY, b"", {"Location": where, **_headers(_HTML, _OWN)})


def _file(path: Path) -> Response:
    shown = files.opened(path)
    policy = _STORED if shown.content_type == _HTML else _DATA
    return Response(200, shown, _headers(shown.content_type, policy))
