"""``--order`` and the key ``order``: what a run does when somebody decides the order of its requests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import BadArgument

if TYPE_CHECKING:
    import threading

    from checkers.evidence.runfolder import RunFolder
    from harness.run.ordering import Replaying
    from harness.run.resolve import WorkloadFile
    from harness.run.settings import Settings, StandingStack
    from workloads.file.recording import Recording
    from workloads.file.workload import Workload


def _typed(text: str) -> str:
    from workloads.file import order as orders

    try:
        return str(orders.parse(text))
    except ValueError as e:
        raise BadArgument(f"--order: {e}") from None


def ordered(
    file: WorkloadFile,
    spec: Workload,
    order: str | None,
    store: Path,
    stop: threading.Event,
    given: Iterable[str],
) -> tuple[Workload, Replaying | None]:
    """The workload with its order; of a replay, the recording's workload, and what forces it.

    Args:
        spec: the file's workload with the options.
        order: of the command line; it overrides the file's.
        store: a run that is no path is looked for there.
        stop: ends the run.
        given: the options that were typed and that a recording decides about.

    Raises:
        BadArgument, FileError: the order cannot be followed.
    """
    from harness.run.ordering import Replaying
    from workloads.file import order as orders

    text = spec.order if order is None else _typed(order)
    if text is None:
        return spec, None
    if (meant := orders.parse(text)).kind != "replay":
        return spec.model_copy(update={"order": text}), None
    found, recording = _recording(file, spec, order, store, Path(meant.run))
    for option in given:
        raise BadArgument(f"{option} does not go with a replay: the recording says it")
    replaying = Replaying(recording, stop, str(found.resolve()))
    return replaying.workload().model_copy(update={"order": f"replay {found.resolve()}"}), replaying


def recorded(spec: Workload, settings: Settings, standing: StandingStack | None) -> Workload:
    """The workload of a run that records its order, so that it can be replayed and shrunk, where that costs only 0.1 to 0.2 ms a request.

    Proxies before the catalog record it. With them a run starts drivers of its own, so one that uses the warm ones of a stack that is up does
    without, as do runs on a user's services and in containers, unless they ask for it.
    """
    from compose.catalogs.registry import CATALOGS
    from harness.run.recorded import recordable

    plain = standing is None and not settings.external and not settings.docker
    return recordable(spec) if plain and CATALOGS[spec.catalog].wire not in (None, "s3") else spec


def not_recorded(folder: RunFolder) -> list[str]:
    """The way to a run that can be shrunk, if this one cannot because its order is not known."""
    if folder.proxy.exists():
        return []
    return [
        "not recorded; a run with --order free can be replayed and shrunk, and each request costs 0.1 to 0.2 ms more"
    ]


def _recording(
    file: WorkloadFile, spec: Workload, order: str | None, store: Path, path: Path
) -> tuple[Path, Recording]:
    """Where the run to replay is, and its recording. A run that is no path is looked for in the store."""
    from checkers.evidence.runfolder import StoreError
    from harness.run.errors import RunError
    from harness.run.recorded import recording_at
    from workloads.file.yamlfile import refuse

    beside = (path,) if order is not None else (file.path.parent / path, path)
    found = next((p for p in (*beside, store / path) if p.exists()), path)
    try:
        recording = recording_at(found)
        if recording.workload.workload != spec.workload:
            raise RunError(
                f"{found} is a run of {recording.workload.workload}, not of {spec.workload}; replay it with that workload"
            )
        return found, recording
    except (RunError, StoreError) as e:
        if order is None:
            refuse([(("order",), f"order: {e}")], file.lines, str(file.path))
        raise BadArgument(f"--order {order}: {e}") from None


def order_words(folder: RunFolder) -> list[str]:
    """What a run's ``run.json`` says of its order; empty if nobody decided it."""
    found = folder.state().get("order")
    return [str(s) for s in found.get("said") or ()] if isinstance(found, dict) else []
