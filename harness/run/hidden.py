"""Secret properties of a catalog, which no file of a run holds: who runs a recorded plan again gives each in an environment variable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from harness.run.errors import RunError
from workloads.file.yamlfile import HIDDEN

PREFIX = "ICEQUAKE_CATALOG_"


def variable(name: str) -> str:
    """The environment variable of a property: of ``jdbc.password`` it is ``ICEQUAKE_CATALOG_JDBC_PASSWORD``."""
    return PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def revealed(
    properties: Mapping[str, str], where: str = "the run", environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Catalog properties with the values of the environment in place of those that are hidden.

    Args:
        where: the file that hides them, for errors.
        environment: the variables; this process's when None.

    Raises:
        RunError: a variable is not set, or its value is not what is hidden. It names each of them.
    """
    known = os.environ if environment is None else environment
    hidden = {name: value for name, value in properties.items() if HIDDEN in value}
    wrong = []
    for name, value in hidden.items():
        given = known.get(variable(name), "")
        if not given:
            wrong.append(
                f"{name} is a secret that was not stored; set the environment variable {variable(name)} to its value"
            )
        elif HIDDEN in given or not re.fullmatch(".+".join(map(re.escape, value.split(HIDDEN))), given, re.DOTALL):
            wrong.append(
                f"{name} was {value}, and {variable(name)} is something else; set it to the value that the run had"
            )
    if wrong:
        raise RunError(f"{where}: catalog_properties: {'; '.join(wrong)}")
    return {name: known[variable(name)] if name in hidden else value for name, value in properties.items()}
