"""``--order`` and the key ``order``: what a run does when somebody decides the order of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import BadArgument

if TYPE_CHECKING:
    import threading

    from checkers.evidence.runfolder import RunFolder
    from harness.run.ordering import Replaying
    from harness.run.resolve import WorkloadFile
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
    given: Mapping[str, Any],
) -> tuple[Workload, Replaying | None]:
    """The workload with its order; of a replay, the recording's workload, and what forces it.

    Args:
        order: of the command line; it overrides the file's.
        store: a run that is no path is looked for there.
        stop: ends the run.
        given: the options that a recording decides about, with their values.

    Raises:
        BadArgument, FileError: the order cannot be followed.
    """
    from checkers.evidence.runfolder import StoreError
    from harness.run.ordering import Replaying
    from harness.run.recorded import recording_at
    from harness.run.settings import RunError
    from workloads.file import order as orders
    from workloads.file.yamlfile import refuse

    text = spec.order if order is None else _typed(order)
    if text is None:
        return spec, None
    if (meant := orders.parse(text)).kind != "replay":
        return spec.model_copy(update={"order": text}), None
    path = Path(meant.run)
    beside = (path,) if order is not None else (file.path.parent / path, path)
    found = next((p for p in (*beside, store / path) if p.exists()), path)
    try:
        recording = recording_at(found)
        if recording.workload.workload != spec.workload:
            raise RunError(
                f"{found} is a run of {recording.workload.workload}, not of {spec.workload}; replay it with that workload"
            )
    except (RunError, StoreError) as e:
        if order is None:
            refuse([(("order",), f"order: {e}")], file.lines, str(file.path))
        raise BadArgument(f"--order {order}: {e}") from None
    if wrong := [option for option, value in given.items() if value is not None]:
        raise BadArgument(f"{wrong[0]} does not go with a replay: the recording says it")
    replaying = Replaying(recording, stop, str(found.resolve()))
    return replaying.workload().model_copy(update={"order": f"replay {found.resolve()}"}), replaying


def order_words(folder: RunFolder) -> list[str]:
    """What a run's ``run.json`` says of its order; empty if nobody decided it."""
    found = folder.state().get("order")
    return [str(s) for s in found.get("said") or ()] if isinstance(found, dict) else []
