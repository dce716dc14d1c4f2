"""``compose.yaml`` as icequake itself reads it, so that a run and ``docker compose`` start the same containers.

Only the keys that the file uses are known. Any other key is an error, because a run would ignore it and ``docker compose`` would not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from compose.processes.service import ServiceError

COMPOSE_FILE = Path(__file__).with_name("compose.yaml")
_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\})")
_PORT = re.compile(r"(?P<host>[\d.]+):(?P<published>\d+):(?P<inside>\d+)")
_SIZE = re.compile(r"(\d+)([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_TIME = re.compile(r"(\d+)(ms|s|m)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_FOR_COMPOSE_ONLY = (
    "depends_on",
    "pull_policy",
)  # a run starts the services in its own order and pulls what is missing


@dataclass(frozen=True)
class Spec:
    """One service of the file.

    Attributes:
        ports: port inside the container → (address, port) of this machine.
        volumes: (folder of this machine, path in the container); read-only.
        tmpfs: path in the container → options.
        memory: limit in bytes.
        healthcheck: as the engine's API wants it, times in ns.
        stop_seconds: between the stop signal and SIGKILL.
        network: ``host``: the container shares this machine's network; None: that of its project.
    """

    name: str
    image: str
    profiles: tuple[str, ...]
    environment: Mapping[str, str]
    ports: Mapping[int, tuple[str, int]]
    memory: int
    pids: int
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    volumes: tuple[tuple[str, str], ...] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    healthcheck: Mapping[str, Any] = field(default_factory=dict)
    stop_signal: str | None = None
    stop_seconds: float = 10.0
    network: str | None = None


def read(variables: Mapping[str, str], file: Path = COMPOSE_FILE) -> dict[str, Spec]:
    """The services by name, with the variables put in. Raises ServiceError that names service and key."""
    try:
        content = yaml.safe_load(file.read_text())
        services = content["services"]
        return {name: _spec(name, _filled(given, variables), file) for name, given in services.items()}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as e:
        raise ServiceError("docker", f"{file} cannot be read: {type(e).__name__}: {e}") from e


def size(text: str) -> int | None:
    """The bytes of a size such as ``512m``; None if it is none."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else None


def profiles(file: Path = COMPOSE_FILE) -> tuple[str, ...]:
    """The profiles of the file: the catalogs that it can start, and ``spark``."""
    return tuple(dict.fromkeys(p for spec in read({}, file).values() for p in spec.profiles))


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """A value with its variables put in; ``$$`` is a dollar. An empty variable counts as missing, as ``:-`` says."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: "$" if m["dollar"] else variables.get(m["name"]) or m["default"] or "", value)
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, variables) for key, item in value.items()}
    return value


def _spec(name: str, given: Mapping[str, Any], file: Path) -> Spec:
    rest = {key: value for key, value in given.items() if key not in _FOR_COMPOSE_ONLY}

    def wrong(key: str, value: Any, wanted: str) -> ServiceError:
        return ServiceError("docker", f"{file}: services.{name}.{key} is {value!r}, not {wanted}")

    def memory(text: Any) -> int:
        if (found := size(str(text))) is not None:
            return found
        raise wrong("mem_limit", text, "a size such as 512m")

    def ports(lines: list[str]) -> dict[int, tuple[str, int]]:
        found: dict[int, tuple[str, int]] = {}
        for line in lines:
            parts = _PORT.fullmatch(line)
            if parts is None or not parts["host"].startswith("127."):
                raise wrong("ports", line, "127.0.0.1:PORT:PORT: nothing is published beyond this machine")
            found[int(parts["inside"])] = (parts["host"], int(parts["published"]))
        return found

    def volumes(lines: list[str]) -> tuple[tuple[str, str], ...]:
        found = []
        for line in lines:
            source, target, mode = (*line.rsplit(":", 2), "", "")[:3]
            if mode != "ro":
                raise wrong("volumes", line, "FOLDER:PATH:ro: a run's data stay in its containers")
            found.append((os.path.normpath((file.parent / source).absolute()), target))
        return tuple(found)

    spec = Spec(
        name=name,
        image=str(rest.pop("image")),
        profiles=tuple(rest.pop("profiles")),
        environment={key: str(value) for key, value in rest.pop("environment", {}).items()},
        ports=ports(rest.pop("ports", [])),
        memory=memory(rest.pop("mem_limit")),
        pids=int(rest.pop("pids_limit")),
        command=_words(rest.pop("command", None)),
        entrypoint=_words(rest.pop("entrypoint", None)),
        volumes=volumes(rest.pop("volumes", [])),
        tmpfs=dict(line.partition(":")[::2] for line in rest.pop("tmpfs", [])),
        healthcheck=_healthcheck(rest.pop("healthcheck")),
        stop_signal=rest.pop("stop_signal", None),
        stop_seconds=_seconds(rest.pop("stop_grace_period", "10s")),
        network=rest.pop("network_mode", None),
    )
    if spec.network not in (None, "host"):
        raise wrong("network_mode", spec.network, "host")
    if rest:
        raise ServiceError("docker", f"{file}: services.{name} has keys that icequake does not know: {', '.join(rest)}")
    return spec


def _words(given: list[Any] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(str(word) for word in given)


def _seconds(text: Any) -> float:
    found = _TIME.fullmatch(str(text))
    if found is None:
        raise ServiceError("docker", f"{text!r} is no time such as 5s")
    return int(found[1]) * _SECONDS[found[2]]


def _healthcheck(given: Mapping[str, Any]) -> dict[str, Any]:
    times = {key: int(_seconds(given[key]) * 1e9) for key in ("interval", "timeout") if key in given}
    return {"test": [str(word) for word in given["test"]], "retries": int(given.get("retries", 3)), **times}
