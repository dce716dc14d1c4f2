"""Many runs in a row leave nothing: ``ICEQUAKE_RUNS=20`` makes twenty."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from compose.docker import packets
from compose.processes.container import CONTAINER_LABEL, HARNESS, HOST, KEEPER, address, host, lives
from tests.support.peers import eventually
from tests.support.runs import environment, icequake

pytestmark = pytest.mark.docker

RUNS = int(os.environ.get("ICEQUAKE_RUNS", "2"))
MANY = 10
"""Runs from which on it tells what the engine needs: in its first ones an engine grows in any case."""
DESCRIPTORS, GOROUTINES, MEGABYTES = 8, 8, 24
"""How many the engine may have more after the last run than after the first; the garbage of Go is part of its memory."""
WORKLOAD: dict[str, Any] = {
    "workload": "short",
    "catalog": "jdbc",
    "tables": [{"name": "t"}],
    "writers": 1,
    "length": {"ops": 3},
    "operations": {"insert": 1},
    "nemesis": {
        "interval": "1s",
        "duration": "500ms",
        "faults": [
            {"verb": "kill", "target": "database"},
            {"verb": "restart", "target": "store"},
            {"verb": "drop-packets", "target": "store"},
            {"verb": "pause", "target": "store"},
        ],
    },
}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty folder with a short name for the runs' temporary files: Unix sockets are among them."""
    made = Path(tempfile.mkdtemp(prefix="many-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def of_others(labels: Mapping[str, str] | None) -> bool:
    """Whether a thing of the engine belongs to a run that goes on, to ``docker compose`` or to testcontainers."""
    labels = labels or {}
    foreign = "com.docker.compose.project" in labels or "org.testcontainers" in labels
    if CONTAINER_LABEL not in labels:
        return foreign
    return labels.get(HOST) != host() or lives(labels.get(KEEPER, labels.get(HARNESS, "")))


def in_the_engine(client: Any, images: Iterable[str]) -> dict[str, set[str]]:
    """What the engine has that is not of others: names; ``folders``: what lies in its data folder and belongs to nothing that it knows.

    ``images``: of a run's containers. A container of another image and without a run's label is of somebody's ``docker build`` or ``run``.
    """
    containers = client.api.containers(all=True)
    unused = client.volumes.list(filters={"dangling": True})
    volumes = [
        one for one in unused if CONTAINER_LABEL in (one.attrs.get("Labels") or {}) or len(one.name) == 64
    ]  # 64: no name given
    return {
        "containers": {
            name
            for one in containers
            for name in one["Names"]
            if not of_others(one["Labels"]) and (CONTAINER_LABEL in one["Labels"] or one["Image"] in images)
        },
        "networks": {one.name for one in client.networks.list() if not of_others(one.attrs.get("Labels"))},
        "volumes": {one.name for one in volumes if not of_others(one.attrs.get("Labels"))},
        "images": {digest for one in client.images.list() for digest in one.attrs["RepoDigests"] or ()},  # those pulled
        "folders": unknown_folders(client),
    }


def added(client: Any, images: Iterable[str], before: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """What the engine has more than before."""
    return {kind: names - before[kind] for kind, names in in_the_engine(client, images).items()}


def unknown_folders(client: Any) -> set[str]:
    """The folders of containers, of their layers and of volumes that the engine no longer knows; none if its data folder cannot be read."""
    root = Path(client.info()["DockerRootDir"])
    places = [root / "containers", root / "volumes", *root.glob("image/*/layerdb/mounts")]

    def there() -> set[Path]:
        return {one for place in places if os.access(place, os.R_OK) for one in place.iterdir() if one.is_dir()}

    before = there()
    known = {one["Id"] for one in client.api.containers(all=True)} | {one.name for one in client.volumes.list()}
    return {str(one) for one in before & there() if one.name not in known}


@dataclass(frozen=True)
class Use:
    """What the engine needs of the machine: open descriptors, goroutines, and MB of memory of its own processes (None: they cannot be seen).

    ``containers``: that run meanwhile. They are of others and need descriptors and goroutines, too.
    """

    containers: int
    descriptors: int
    goroutines: int
    megabytes: float | None

    def __str__(self) -> str:
        memory = "" if self.megabytes is None else f", {self.megabytes:.1f} MB"
        return f"{self.containers} containers, {self.descriptors} descriptors, {self.goroutines} goroutines{memory}"


def use(client: Any) -> Use:
    """What the engine uses now. Memory: that which only dockerd and its containerd use, without the processes of containers."""
    told, memory = client.info(), None
    server = serving(client)
    if server is not None:
        with contextlib.suppress(psutil.Error):
            own = [server, *(child for child in server.children() if child.name() == "containerd")]
            memory = sum(one.memory_full_info().uss for one in own) / 1e6
    return Use(told["ContainersRunning"], told["NFd"], told["NGoroutines"], memory)


def growth(used: Sequence[Use]) -> list[str]:
    """What grew from the first to the last of the moments at which no container ran, by more than a run's leak in a row of twenty."""
    quiet = [one for one in used if one.containers == 0]
    if len(quiet) < 2:
        return []
    first, last = quiet[0], quiet[-1]
    grown = {
        "descriptors": (first.descriptors, last.descriptors, DESCRIPTORS),
        "goroutines": (first.goroutines, last.goroutines, GOROUTINES),
        "MB": (first.megabytes or 0, last.megabytes or 0, MEGABYTES),
    }
    return [f"{name}: {a:.0f}, then {b:.0f}" for name, (a, b, allowed) in grown.items() if b - a > allowed]


def serving(client: Any) -> psutil.Process | None:
    """The process behind the engine's Unix socket; None without one, or if it cannot be seen."""
    where = address()
    if not where.startswith("unix://"):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(where.removeprefix("unix://"))
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return process if process.name() == "dockerd" else None
    return None


def of(scratch: Path) -> list[str]:
    """The processes that use the folder, by their command lines."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if str(scratch) in " ".join([*words, *process.environ().values()]):
                found.append(" ".join(words)[:200])
    return found


def test_runs_in_a_row_leave_the_machine_as_it_was(
    client: Any, images: dict[str, str], tmp_path: Path, scratch: Path
) -> None:
    file, store = tmp_path / "short.yaml", tmp_path / "store"
    file.write_text(yaml.safe_dump(WORKLOAD))
    own = {*images.values(), packets.image()}
    before = in_the_engine(client, own)
    used: list[Use] = []
    for seed in range(RUNS):
        done = icequake(
            *("run", file, "--docker", "--spark", "local[1]", "--seed", str(seed), "--store", store),
            env=environment(TMPDIR=str(scratch)),
        )
        assert done.returncode in (0, 2), done.stdout + done.stderr  # 2: too short for a verdict, on a busy machine
        eventually(lambda: not any(added(client, own, before).values()))  # a removal of others may be going on
        more = added(client, own, before)
        assert not any(more.values()), f"after run {seed}: {more}"
        assert of(scratch) == [] and list(scratch.iterdir()) == [], f"after run {seed}"
        used.append(use(client))
        print(f"after run {seed}: {used[-1]}")
    assert RUNS < MANY or growth(used) == []
    assert len([one for one in (store / "short").iterdir() if not one.is_symlink()]) == RUNS
