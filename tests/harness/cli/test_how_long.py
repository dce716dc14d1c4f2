"""Before something long begins, its first line says how much there is to do and about how long that takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.costs.comparison import Comparison
from harness.campaign.campaign import Campaign
from harness.cli.sweep import SweepOptions
from tests.support.committers import point, simulated
from tests.support.runs import inside

LONG = [
    (
        ["sweep", "writers", "--vary", "writers=1,2", "--seeds", "5"],
        "4 points (layout one-partition, own-partition × writers 1, 2) × 5 seeds from 7 = 20 runs, about 8 minutes: ",
    ),
    (
        ["compare", "quick", "--catalog", "rest,jdbc", "--time", "60s", "--seeds", "3"],
        "seeds 7 to 9, about 10 minutes: ",
    ),
    (
        ["time-to-find", "undelete", "--seeds", "2", "--order", "free"],
        "1 defect, 2 searches, about 10 minutes if none finds anything: ",
    ),
]


@pytest.mark.parametrize(("typed", "says"), LONG, ids=lambda x: x[0] if isinstance(x, list) else "")
def test_a_long_command_says_before_it_starts_how_long_it_takes(
    typed: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: Any) -> None:
        raise KeyboardInterrupt  # the user reads the line, and stops before the first run

    monkeypatch.setattr(Campaign, "go", stopped)
    done = inside(*typed, "--seed", "7", "--store", "s", cwd=tmp_path)
    assert done.returncode == 130 and says in done.stderr.splitlines()[0], done.stderr


def test_several_models_say_how_long_their_search_takes(tmp_path: Path) -> None:
    done = inside("model", "undelete", "undelete-serializable", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.splitlines()[0] == "icequake: 2 models, less than a minute"


def test_what_nobody_knows_or_what_is_given_is_said_too() -> None:
    from harness.cli.certify import CertifyOptions
    from harness.cli.shrink import ShrinkOptions
    from harness.cli.soak import SoakOptions

    assert CertifyOptions().how_long == "about 3 minutes"
    assert CertifyOptions(repeat=3, only="null-ref,duplicate-commit").how_long == "about a minute"
    assert CertifyOptions(repeat=50).how_long == "about 67 minutes"
    assert ShrinkOptions(budget="20m").how_long == "about 20 minutes"
    assert SoakOptions("nightly", lasts="6h").how_long == "about 6.0 hours"
    more = ", and up to 1 h more to replay and shrink what is new (--no-shrink leaves it out)"
    few = SoakOptions("nightly", runs=10).how_long
    assert few.startswith("about ") and few.endswith(more)
    assert SoakOptions("nightly", runs=10, shrink=False).how_long == few.removesuffix(more)


def test_the_first_run_of_a_sweep_says_once_how_much_time_is_left_at_its_length() -> None:
    said: list[str] = []
    run = point(0, simulated(1, 2, 4).run.measures(), ("writers", "2"), ("backoff", "none"))
    assert run.measures is not None

    def done(runs: int) -> Comparison:
        return Comparison({}, (run.contender,), (0,), (run,) * runs)

    options = SweepOptions("writers", vary=["writers=1,2"], seeds=5)
    tell = options._once_measured(said.append, lambda: done(12))
    for _ in range(2):
        tell([run])
    assert said == [f"time left: about 2 minutes (8 runs; the first one had {run.measures.seconds:.0f} s of load)"]
    options._once_measured(said.append, lambda: done(20))([run])
    assert len(said) == 1, "nothing is left"
