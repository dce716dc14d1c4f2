"""``python -m bench [NAME ...]``: run all benchmarks of minutes, or those named; ``replays`` takes up to two hours."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench import (
    bigstore,
    checkers,
    files,
    isolation,
    lake,
    linearizable,
    minimal,
    online,
    overhead,
    proxy,
    replays,
    statements,
)

BENCHMARKS: dict[str, Callable[[], None]] = {
    "overhead": overhead.main,
    "checkers": checkers.main,
    "bigstore": bigstore.main,
    "files": files.main,
    "isolation": isolation.main,
    "linearizable": linearizable.main,
    "minimal": minimal.main,
    "online": online.main,
    "proxy": proxy.main,
    "statements": statements.main,
    "lake": lake.main,
    "replays": replays.main,
}
BY_NAME = {"replays"}
"""Run only when named: they take hours."""


def main(names: list[str]) -> int:
    """Run them one after the other, all but :data:`BY_NAME` if none is named; returns 254 for an unknown name."""
    for name in names:
        if name not in BENCHMARKS:
            print(f"bench: no benchmark {name!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
            return 254
    for name in names or [n for n in BENCHMARKS if n not in BY_NAME]:
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
