"""What to do now is said only where the run's evidence says that it is possible."""

from __future__ import annotations

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import MissingFile, TableLog
from checkers.formats.delta.tableformat import Delta
from checkers.judge.check import check
from checkers.judge.repair import RepairStep, in_order, last_readable, merged, repair, repair_words
from checkers.judge.stories import tell
from tests.checkers.test_commits import lost_by_a_commit_on_an_older_base, never_committed
from tests.support.unreadable import broken


def a_lost_append() -> Evidence:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    commits = tuple(replace(c, operation="append") if c.op == "b" else c for c in log.commits)
    return replace(e, logs={"t": replace(log, commits=commits)})


RUN_AGAIN = "Once it cannot happen again (see “avoid it”), run {0} again: its statement is on this card, and none of its effects is there."


def said(
    e: Evidence, op: str, log: TableLog | None = None, name: str = "lost-commit", keys: tuple[int, ...] = ()
) -> str:
    operations = {o.op: o for o in e.history.operations()}
    return repair_words(tuple(repair(name, log or e.logs["t"], operations, [op], keys, unreadable=False)))


def test_a_lost_append_whose_snapshot_is_listed_is_brought_back() -> None:
    e = a_lost_append()
    log = e.logs["t"]
    assert 2 in log.metadata[-1].snapshots
    assert said(e, "b") == (
        f"The files of b are all there: `CALL c.system.cherrypick_snapshot('{log.identifier.removeprefix('c.')}', 2)` brings its rows back."
    )


@pytest.mark.parametrize(
    "why", ["a file is gone", "it is no append", "it is not listed", "nobody looked for its files"]
)
def test_what_cannot_be_brought_back_is_run_again(why: str) -> None:
    e = a_lost_append()
    log = e.logs["t"]
    if why == "a file is gone":
        log = replace(log, missing_files=(MissingFile("data/2.parquet", (2,)),))
    elif why == "it is no append":
        log = replace(log, commits=tuple(replace(c, operation="overwrite") if c.op == "b" else c for c in log.commits))
    elif why == "it is not listed":
        log = replace(log, metadata=(*log.metadata[:-1], replace(log.metadata[-1], snapshots=(1, 3))))
    else:
        log = replace(log, complete=False)
    assert said(e, "b", log) == RUN_AGAIN.format("b")


def test_a_commit_that_was_never_made_is_run_again() -> None:
    e = never_committed()
    op = e.history.operations()[0].op
    assert said(e, op) == RUN_AGAIN.format(op)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("false-failure", "Do not run b again: the table has its rows."),
        ("undelete", "Run b again while nothing else writes (id 2): the deleted rows are still there."),
        ("resurrected-row", "Delete the rows that came back (id 2); this card shows them whole."),
        (
            "summary-count",
            "Copy the tables with an engine that follows the specification (in Spark `CREATE TABLE … AS SELECT`): old snapshots stay wrong.",
        ),
        ("stale-read", ""),
    ],
)
def test_other_names_say_what_the_table_has(name: str, says: str) -> None:
    assert said(lost_by_a_commit_on_an_older_base(), "b", name=name, keys=(2,)) == says


def test_an_unreadable_table_is_set_back_to_the_last_state_whose_files_are_there() -> None:
    b = broken()
    log = b.evidence.logs[b.table]
    found = last_readable(log)
    assert found is not None
    c, m = found
    assert c.snapshot_id == b.commit.parent_id == m.current, "all but the last commit"
    told = tell(b.evidence, check(b.evidence).verdicts, None)
    (story,) = [s for s in told.stories if s.table == b.table]
    catalog, _, name = log.identifier.partition(".")
    assert story.repair == (
        f"The last readable state of {b.table} is snapshot {c.snapshot_id} ({c.label}): register that under a new name, "
        f"`CALL {catalog}.system.register_table('{name}_saved', '{m.location}')`, and let writers and readers use it. Both names have the "
        "same files: run no expiry or orphan removal until the old one is dropped, without PURGE; then rename the new one if the catalog can. "
        "No acknowledged commit is lost by that. "
        f"That state lacks {b.culprit.op}, which was not acknowledged: run it again there only if you still want its rows."
    )
    gone = replace(log, missing_files=(MissingFile("x", log.metadata[-1].snapshots),))
    assert last_readable(gone) is None
    assert not [*repair("missing-file", gone, {}, [], (), unreadable=True)]
    acknowledged = {b.culprit.op: replace(b.evidence.history.operations()[0], type="ok", op=b.culprit.op)}
    text = repair_words(tuple(repair("missing-file", log, acknowledged, [], (), unreadable=True)))
    assert f"lacks {b.culprit.op}, which was acknowledged: run it again there; its statement is on this card." in text
    assert "No acknowledged commit is lost" not in text


def test_a_table_of_another_format_is_set_back_in_that_ones_words() -> None:
    m = replace(broken().evidence.logs[broken().table].metadata[-1], n=7)
    assert Delta().set_back(broken().commit, m, "t") == "`RESTORE TABLE t TO VERSION AS OF 7`"  # type: ignore[arg-type]
    assert Delta().brought_back(broken().commit, "t") is None  # type: ignore[arg-type]


def test_who_runs_a_lost_write_again_reads_first_what_the_table_has_now() -> None:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    at = log.columns.index("id")
    live = {x.row[at]: c.op for c in log.main() for x in c.added or ()}
    (there, by), *_ = live.items()
    assert said(e, "b", keys=(there,)).endswith(f"Look at id {there} first: the table has rows by {by} now.")
    assert said(e, "b", keys=(999,)).endswith("No row of id 999 is there now.")
    main = log.main()[-1].snapshot_id
    unread = replace(log, commits=tuple(replace(c, added=None) if c.snapshot_id == main else c for c in log.commits))
    assert "now." not in said(e, "b", unread, keys=(there,)), "nobody knows its rows"


def test_steps_of_one_text_are_one_step_in_the_order_of_the_history() -> None:
    steps = [RepairStep("Run {ops} again: {statements} on {card}.", (op,), (n,), "note") for n, op in enumerate("ba")]
    (one,) = merged(steps)
    assert in_order(one, {"a": 0, "b": 1}).words("cards 1–2") == "Run a, b again: their statements are on cards 1–2."
    assert steps[0].words() == "Run b again: its statement is on this card. note"
    (looked,) = merged([replace(s, changed=s.ops) for s in steps])
    assert looked.words("x").endswith(
        "Check first, for rows of their ids were written later: to run them would overwrite, delete or double these."
    )
    (half,) = merged([replace(steps[0], changed=("b",)), steps[1]])
    assert "Safe to run as it is: a. Check the others first, for rows of its ids were " in in_order(half, {}).words()
    assert len(merged([*steps, RepairStep("Delete them{ids}.", (), (1, 2))])) == 2
    assert RepairStep("Delete them{ids}.", (), (1, 2)).words() == "Delete them (ids 1, 2)."
