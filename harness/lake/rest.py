"""PyIceberg's REST catalog with a bound: PyIceberg itself waits without end for a server that does not answer."""

from __future__ import annotations

from functools import partial

from pyiceberg.catalog.rest import RestCatalog
from requests import Session

ANSWER_S = 120.0
"""Seconds in which a server must answer."""


class BoundedCatalog(RestCatalog):
    """The catalog; a request that is not answered raises what ``requests`` raises, an OSError."""

    def _config_headers(self, session: Session) -> None:  # PyIceberg does this first to every session
        session.request = partial(session.request, timeout=ANSWER_S)  # type: ignore[method-assign]
        super()._config_headers(session)
