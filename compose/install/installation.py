"""The paths of everything that a run needs."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compose.install.cache import SetupError
from compose.install.own_jar import RuntimeJar

UNKNOWN_VERSION = "unknown"


@dataclass(frozen=True)
class Installation:
    """Where each part is.

    Attributes:
        jars: a configuration of ``jars.lock`` → its class path.
        delta: a configuration of ``jars.lock`` in place of Delta Lake's default release; None: that one.
        own_jar: the user's runtime jar, of which ``jars["spark"]`` has a copy; None if the writers run a release.
    """

    home: Path
    java: Path
    jars: Mapping[str, tuple[Path, ...]]
    rest_classes: Path
    minio: Path
    postgres_bin: Path
    spark_home: Path
    python: Path
    own_jar: RuntimeJar | None = None
    delta: str | None = None


def spark_home() -> Path:
    """The Spark inside the pyspark wheel (found, not imported: importing costs half a second)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupError("pyspark is missing: pip install pyspark==4.1.4 (icequake setup does it)")
    return Path(spec.origin).parent


def version_in_names(pattern: str, jars: Iterable[Path]) -> str:
    """The first group of ``pattern`` in the first file name that matches as a whole; ``unknown`` if none does."""
    return next((match[1] for jar in jars if (match := re.fullmatch(pattern, jar.name))), UNKNOWN_VERSION)
