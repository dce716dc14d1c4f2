"""What a warm writer keeps from run to run: a session of its own for each, and no connection of those before."""

from __future__ import annotations

import contextlib
from typing import Any

import psutil
import pytest

from compose.stack.stack import Stack
from harness.writers.driver import session_properties
from harness.writers.session import Session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TIMES = 6


def test_a_session_that_was_replaced_keeps_no_connection_to_the_catalog(spark: Any, stack: Stack) -> None:
    """Spark closes no catalog: a soak of one stack had some more connections, and file descriptors of its proxies, with each run."""
    port = int(stack.endpoints.catalog_uri.split(":")[2].partition("/")[0])
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
    plain = {k: str(v) for k, v in session_properties(dict(spark.sparkContext.getConf().getAll())).items()}
    assert plain, "the session has a catalog"

    def connections() -> int:
        family = [jvm, *jvm.children(recursive=True)]
        every = []
        for p in family:
            with contextlib.suppress(psutil.NoSuchProcess):  # Hadoop asks the system for something
                every += p.net_connections(kind="tcp")
        return sum(c.status == psutil.CONN_ESTABLISHED and bool(c.raddr) and c.raddr.port == port for c in every)

    for cached in ("false", "true"):
        session, counts = Session(spark.newSession()), []
        for n in range(TIMES):
            assert session.renew(
                plain | {"spark.sql.catalog.c.cache-enabled": cached, "spark.sql.catalog.c.nth": str(n)}
            )["ok"]
            asked = {"op": f"op-{n}", "names": {}, "statements": [{"sql": "SHOW NAMESPACES IN c", "result": True}]}
            assert session.execute(asked)["ok"]
            counts.append(connections())
        assert counts[0] > 0 and counts[-1] <= counts[0], counts
