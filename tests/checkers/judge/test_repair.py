"""What to do now is said only where the run's evidence says that it is possible."""

from __future__ import annotations

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import MissingFile, TableLog
from checkers.formats.delta.tableformat import Delta
from checkers.judge.check import ALL, check
from checkers.judge.repair import last_readable, removed_since, repair
from checkers.judge.repairsteps import NO_BACKUP, Repair, RepairStep, branches, merged, repair_words
from checkers.judge.stories import harm_of
from checkers.judge.telling import tell
from checkers.names import Harm
from reports.names import explained, names
from tests.checkers.commits.test_commits import lost_by_a_commit_on_an_older_base, never_committed
from tests.support.drawing import Drawing, row
from tests.support.unreadable import broken


def a_lost_append() -> Evidence:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    commits = tuple(replace(c, operation="append") if c.op == "b" else c for c in log.commits)
    return replace(e, logs={"t": replace(log, commits=commits)})


RUN_AGAIN = "Run {0} again: none of its effects is there, and its statement is on this card."
NOBODY_KNOWS = (
    " {0}: look at its rows first, for nobody knows who has changed them since; as it stands it would also {1} rows that others "
    "have written since."
)
UNTIL = "From commit 3 on, queries of t returned the row that it had deleted, until DELETE x (commit 4) removed it."
LEAVE_OUT = "; leave out what is to stay."


def said(
    e: Evidence, op: str, log: TableLog | None = None, name: str = "lost-commit", keys: tuple[int, ...] = ()
) -> str:
    operations = {o.op: o for o in e.history.operations()}
    steps = repair(name, log or e.logs["t"], operations, [op], keys, unreadable=False)
    stop = [s for s in steps if s.does is Repair.STOP]
    harmless = harm_of(name) is Harm.METADATA or all(s.does is Repair.LEAVE for s in steps)
    assert not stop if harmless else stop == steps[:1]
    return repair_words(s for s in steps if s not in stop)


def test_a_lost_append_whose_snapshot_is_listed_is_brought_back() -> None:
    e = a_lost_append()
    log = e.logs["t"]
    assert 2 in log.metadata[-1].snapshots
    text = said(e, "b")
    call = f"`CALL c.system.cherrypick_snapshot('{log.identifier.removeprefix('c.')}', 2)` brings its rows back."
    look = NOBODY_KNOWS.format("b", "insert").removeprefix(" b: l")
    assert text == f"The files of b are all there. L{look} Then {call}", "who looks first reads that first"


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
    assert said(e, "b", log) == RUN_AGAIN.format("b") + NOBODY_KNOWS.format("b", "insert")[:-1] + LEAVE_OUT


@pytest.mark.parametrize("name", ["lost-update", "stale-scan", "write-skew"])
def test_rows_that_were_computed_without_another_write_are_compared_by_hand(name: str) -> None:
    e = a_lost_append()
    op = e.history.operations()[0].op
    there = [r.row for c in e.logs["t"].main() for r in c.added or ()]
    key = there[0][e.logs["t"].columns.index("id")]
    text = said(e, op, name=name, keys=(key,))
    assert text.startswith(f"Look at these rows (t: id {key}), by `SELECT * FROM t WHERE id IN ({key});`, and compare")
    assert f"what {op} and the writes before it were to leave" in text and " Now there: " in text
    assert said(e, op, name=name) == "", "nobody knows which rows"


def test_a_commit_that_was_never_made_is_run_again() -> None:
    e = never_committed()
    op = e.history.operations()[0].op
    verb = "delete" if e.history.operations()[0].f == "delete" else "insert"
    assert said(e, op) == RUN_AGAIN.format(op) + NOBODY_KNOWS.format(op, verb)[:-1] + LEAVE_OUT


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("false-failure", "Do not run b again: the table has its rows."),
        (
            "resurrected-row",
            "Delete the rows that came back (t: id 2), by all their columns: this card shows them whole, for other rows may have these ids.",
        ),
        (
            "summary-count",
            "Nothing is to be stopped or copied: this made no row of t wrong. Trust a query, not what the card names as wrong, and look at "
            "that before expiry, a rewrite or another engine uses it.",
        ),
        (
            "file-size",
            "Copy t with an engine that follows the specification before anybody writes on: make a table of the same schema, partitions and "
            "properties, `INSERT INTO t_copy SELECT * FROM t`, compare the counts, swap the names; the old snapshots stay wrong.",
        ),
        ("stale-read", ""),
    ],
)
def test_other_names_say_what_the_table_has(name: str, says: str) -> None:
    assert said(lost_by_a_commit_on_an_older_base(), "b", name=name, keys=(2,)) == says


def test_only_wrong_rows_and_unreadable_tables_are_stopped_and_copied() -> None:
    log = lost_by_a_commit_on_an_older_base().logs["t"]
    for name in names():
        found = explained(name, [])
        assert found is not None
        steps = repair(name, log, {}, ["b"], (), unreadable=False)
        if found.meaning.harm not in (Harm.ROWS, Harm.UNREADABLE):
            text = repair_words(steps)
            assert not any(s.does is Repair.STOP for s in steps) and not text.startswith("Copy"), f"{name}: {text}"
    for name in ("duplicate-row", "pruned-rows", "several-dvs", "file-format", "main-not-moved"):
        assert repair(name, log, {}, ["b"], (1,), unreadable=False)[0].does is Repair.STOP, name


def test_rows_that_came_back_are_deleted_by_a_statement_only_if_each_is_there_once() -> None:
    log = lost_by_a_commit_on_an_older_base().logs["t"]
    row = (log.main()[-1].added or ())[0].row
    id_ = row[log.columns.index("id")]

    def step(*rows: tuple[object, ...]) -> str:
        steps = repair("resurrected-row", log, {}, ["b"], (id_,), unreadable=False, came_back=rows)
        return next(s.words() for s in steps if s.does is Repair.REMOVE)

    each = " AND ".join(f"{c} = {v!r}" for c, v in zip(log.columns, row, strict=True))
    assert step(row) == (
        f"Delete the rows that came back (t: id {id_}), by all their columns: `DELETE FROM t WHERE {each};`"
    )
    others = step()
    assert "DELETE FROM" not in others and "this card shows them whole" in others, "nobody knows the rows"
    assert step((id_ + 900, *row[1:])) == others, "it is not there"
    assert step((float(id_), *row[1:])) == others, "SQL writes it in many ways"


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
    rows = sum(len(x.added or ()) - len(x.removed or ()) for x in log.main() if x.snapshot_id != b.commit.snapshot_id)
    assert story.repair == (
        f"Stop the writers of {b.table}, and the maintenance, which could remove files that are needed here, until all is done and it "
        "cannot happen again (see “avoid it”). If you have a backup (a store that keeps versions is one): restore the files whose names are on "
        "this card, and do not go back. What was reported as failed is in the table then: do not run it again. "
        f"If you have none: Go back to the last readable state of {b.table}, snapshot {c.snapshot_id} ({c.label}, which has {rows} rows): "
        f"`CALL {catalog}.system.register_table('{name}_saved', '{m.location}')`. "
        f"Point the writers and readers of {b.table} to what you registered. Both names have the "
        "same files: run no expiry or orphan removal until the old one is dropped, without PURGE; then rename the new one if the catalog can. "
        f"No acknowledged commit is lost by going back. {b.culprit.op}: not acknowledged, and not there once you have gone back; run it again "
        "only if you still want its effect."
    )
    gone = replace(log, missing_files=(MissingFile("x", log.metadata[-1].snapshots),))
    assert last_readable(gone) is None
    assert not repair("missing-file", gone, {}, [], (), unreadable=True)
    acknowledged = {b.culprit.op: replace(b.evidence.history.operations()[0], type="ok", op=b.culprit.op)}
    text = repair_words(tuple(repair("missing-file", log, acknowledged, [], (), unreadable=True)))
    assert (
        f"What {b.culprit.op} did, acknowledged, is not in {b.table} then: run it again; its statement is on this card."
        in text
    )
    assert "No acknowledged commit is lost" not in text


def test_a_table_of_another_format_is_set_back_in_that_ones_words() -> None:
    m = replace(broken().evidence.logs[broken().table].metadata[-1], n=7)
    assert Delta().set_back(broken().commit, m, "t") == "`RESTORE TABLE t TO VERSION AS OF 7`"  # type: ignore[arg-type]
    assert Delta().brought_back(broken().commit, "t") is None  # type: ignore[arg-type]


def test_who_runs_a_lost_write_again_reads_first_who_has_changed_its_rows_since() -> None:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    at = log.columns.index("id")
    live = {x.row[at]: c.op for c in log.main() for x in c.added or ()}
    rows = {x.row[at]: x.row for c in log.main() for x in c.added or ()}
    began = next(o for o in e.history.operations() if o.op == "b").start
    since = {o.op for o in e.history.operations() if o.end is None or o.end > began}
    for id_, by in live.items():
        only = f"Run the INSERT only if id {id_} is missing."
        wrote = f"b: id {id_}: {by} changed the row since. {only} Now there: {rows[id_]}."
        assert said(e, "b", keys=(id_,)).endswith(wrote if by in since else f"b: nobody has changed id {id_} since.")
    assert {by in since for by in live.values()} == {True, False}
    every = said(e, "b", keys=tuple(live))
    assert " changed the rows since. Run the INSERT only for those that are missing. Now there: " in every
    assert said(e, "b", keys=(999,)).endswith("b: nobody has changed id 999 since.")
    main = log.main()[-1].snapshot_id
    unread = replace(log, commits=tuple(replace(c, added=None) if c.snapshot_id == main else c for c in log.commits))
    assert said(e, "b", unread, keys=(999,)).endswith(NOBODY_KNOWS.format("b", "insert")[:-1] + LEAVE_OUT)


@pytest.mark.parametrize(
    ("f", "would"),
    [
        ("insert", ""),
        ("delete", "delete it"),
        ("merge-upsert", "write it again"),
        ("rewrite-data-files", ""),
    ],
)
def test_what_a_statement_would_do_to_a_row_that_is_there_depends_on_its_kind(f: str, would: str) -> None:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    operations = {o.op: replace(o, f=f, invoked=replace(o.invoked, time=-1)) for o in e.history.operations()}
    there = log.main()[-1].added or ()
    id_ = there[0].row[log.columns.index("id")]
    notes = [n for s in repair("lost-commit", log, operations, ["b"], (id_,), unreadable=False) for n in s.notes]
    assert [n.partition("it would ")[2].partition(LEAVE_OUT)[0] for n in notes] == (
        [] if f == "rewrite-data-files" else [would]
    )
    assert all((f == "insert") is ("Run the INSERT only if " in n) for n in notes)


def test_steps_of_one_text_are_one_step_in_the_order_of_the_history() -> None:
    text = "Run {ops} again: {statements} on {card}."
    steps = [
        RepairStep(text, Repair.RUN_AGAIN, (op,), (("t", n),), notes=(f"{op}: look.",)) for n, op in enumerate("ba")
    ]
    (one,) = merged(steps, {"a": 0, "b": 1})
    assert one.words("cards 1–2") == "Run a, b again: their statements are on cards 1–2. a: look. b: look."
    assert [s.words() for s in merged(steps[:1])] == ["Run b again: its statement is on this card. b: look."]


def test_steps_mend_a_table_before_its_rows_copy_it_before_they_write_to_it_and_remove_rows_before_statements_run_again() -> (
    None
):
    rows = RepairStep("Delete them{ids}.", Repair.REMOVE, keys=(("t", 1), ("t", 2), ("u", 1)))
    copy = RepairStep("Copy {tables}.", tables=("t", "u"))
    again, back = RepairStep("Run {ops}.", Repair.RUN_AGAIN, ("a",)), RepairStep("Go back.", Repair.SET_BACK)
    said = [s.words() for s in merged([copy, again, rows, back])]
    assert said == ["Go back.", "Copy t, u.", "Delete them (t: ids 1, 2; u: id 1).", "Run a."]


def test_who_has_no_backup_goes_back_and_does_again_what_that_loses_before_all_else() -> None:
    back, redo = RepairStep("Go back.", Repair.SET_BACK, back=True), RepairStep("Redo.", Repair.REDO, back=True)
    rows, restore = RepairStep("Delete them.", Repair.REMOVE), RepairStep("Restore.", Repair.RESTORE)
    steps = merged([redo, rows, restore, back])
    assert [(lead, [s.text for s in these]) for lead, these in branches(steps)] == [
        ("", ["Restore."]),
        (NO_BACKUP, ["Go back.", "Redo."]),
        ("", ["Delete them."]),
    ]
    assert repair_words(steps) == "Restore. If you have none: Go back. Redo. Delete them."
    assert repair_words([redo]) == "Redo.", "nothing stands before it that one may have"


def test_a_file_that_repeats_the_log_and_says_something_else_is_removed_if_the_log_is_whole() -> None:
    e = lost_by_a_commit_on_an_older_base()
    first, *later = e.logs["t"].metadata
    whole = replace(e.logs["t"], metadata=(replace(first, n=0), *later))

    def of(name: str, *files: str, log: TableLog = whole) -> list[str]:
        return [s.words() for s in repair(name, log, {}, [], (), unreadable=False, repeats=files)][1:]

    (checksum,) = of("checksum-unlike", "2.crc")
    assert (
        checksum.startswith(
            "Move `2.crc` out of the log of t, before anybody writes on, if every version from 0 on is still there: "
        )
        and "_last_checkpoint" not in checksum
    )
    assert of("checksum-unlike", "2.checkpoint.parquet")[0].endswith(
        "If `_last_checkpoint` names it, remove that, too."
    )
    assert of("lost-commit") == []
    assert "Remove" not in str(of("checksum-unlike", "2.crc", log=replace(whole, metadata=tuple(later))))


def test_a_file_that_only_older_snapshots_need_is_no_reason_to_go_back() -> None:
    """A table that can be read was to be set back to the version that it had."""
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    old = next(c for c in log.main() if c.snapshot_id != log.metadata[-1].current)
    gone = replace(log, missing_files=(MissingFile("x", (old.snapshot_id,)),))
    said_ = said(e, "b", gone, name="missing-file")
    assert said_.startswith(
        "t can be read; only time travel to the snapshots on this card needs the files that are gone."
    )
    assert "register_table" not in said_


def test_what_came_after_the_state_to_which_a_table_is_set_back_is_not_brought_back_by_its_snapshot() -> None:
    """The version that is registered does not list it."""
    e = a_lost_append()
    log = e.logs["t"]
    assert "cherrypick" in said(e, "b")
    newest = log.metadata[-1].current
    assert newest is not None
    unreadable = replace(log, missing_files=(MissingFile("x", (newest,)),))
    assert "cherrypick" not in said(e, "b", unreadable)


def test_a_commit_of_the_state_to_which_one_goes_back_is_not_run_again() -> None:
    """It was lost by a later commit, and going back brings it."""
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    newest = log.metadata[-1].current
    assert newest is not None
    lost = next(c for c in log.commits if c.op == "b")
    gone = replace(log, missing_files=(MissingFile("x", tuple(c.snapshot_id for c in log.commits if c is not lost)),))
    found = last_readable(gone)
    assert found is not None and found[0].op == "b"
    assert said(e, "b", gone) == (
        "b, which was lost, is in the state to which you go back. If you restore the files instead, run it again."
    )


def test_what_main_has_at_the_end_and_a_state_does_not_stand_on_is_named_when_one_goes_back() -> None:
    """A commit that was main before that state, was set aside by it, and came back with what stands on it."""
    b = broken()
    log = b.evidence.logs[b.table]
    *_, before, state, last = log.metadata
    commits = log.by_snapshot()
    aside, newest = commits[before.current or 0], commits[last.current or 0]
    side = replace(commits[state.current or 0], parent_id=aside.parent_id)
    back = replace(newest, parent_id=aside.snapshot_id)
    moved = {side.snapshot_id: side, back.snapshot_id: back}
    log = replace(log, commits=tuple(moved.get(c.snapshot_id, c) for c in log.commits))
    gone = replace(log, missing_files=(MissingFile("x", (aside.snapshot_id, back.snapshot_id)),))
    found = last_readable(gone)
    assert found is not None and found[0].snapshot_id == side.snapshot_id
    operations = {o.op: o for o in b.evidence.history.operations()}
    named = [op for s in repair("missing-file", gone, operations, [], (), unreadable=True) for op in s.ops]
    assert aside.op in named and back.op in named and side.op not in named


def test_an_undelete_is_run_again_only_while_its_row_is_there() -> None:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    at = log.columns.index("id")
    live = next(x.row[at] for x in log.main()[-1].added or ())
    assert said(e, "b", name="undelete", keys=(live,)).startswith("Run b again while nothing else writes (t: id ")
    none = "Nothing to repair (t: id 999): no such row is left."
    assert said(e, "b", name="undelete", keys=(999,)) == none, "somebody has deleted it since"


@pytest.mark.parametrize(
    ("since", "means", "now"),
    [
        ("nothing", "Queries of t still return the row that it deleted.", "Run d again while nothing else writes"),
        ("deleted", UNTIL, "Nothing to repair (t: id 1): no such row is left."),
        ("both", UNTIL, "Nothing to repair (t: id 1): no such row is left."),
        (
            "inserted",
            UNTIL,
            "Nothing to repair (t: id 1): what was left is gone, and what has this id now was written later.",
        ),
    ],
)
def test_what_a_delete_left_is_told_until_somebody_removes_it(since: str, means: str, now: str) -> None:
    d = Drawing("snapshot", mode="merge-on-read", format_version=2)
    one = row(1, "seed")
    changed, other = one._replace(val="u"), row(1, "i")
    d.did("seed", "insert", ids=[1], add=[one])
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-register", ids=[1], remove=[one], add=[changed])
    d.commit("d")
    d.ok("d")
    if since != "nothing":
        d.did("x", "delete", ids=[1], remove=[changed])
    if since in ("inserted", "both"):
        d.did("i", "insert", ids=[1], add=[other])
    if since == "both":
        d.did("y", "delete", ids=[1], remove=[other])
    (story,) = check(d.evidence(), [c for c in ALL if c.name == "replay"]).told.stories
    assert story.name == "undelete" and story.consequence == means
    assert now in story.repair and (since == "nothing") is ("Stop the writers" in story.repair)


def test_who_deleted_a_row_since_counts_too() -> None:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    at = log.columns.index("id")
    *others, last = log.commits
    gone = next(x for c in log.main() for x in c.added or ())
    deletes = replace(last, op="d", added=(), removed=(gone,))
    text = said(e, "b", replace(log, commits=(*others, deletes)), keys=(gone.row[at],))
    assert f"b: id {gone.row[at]}: " in text and "d changed the row since" in text


def test_a_lost_rollback_is_not_run_again_and_an_alter_has_no_rows_to_look_at() -> None:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    log = replace(log, metadata=(*log.metadata[:-1], replace(log.metadata[-1], snapshots=(1, 3))))

    def of(f: str) -> str:
        operations = {o.op: replace(o, f=f) for o in e.history.operations()}
        steps = repair("lost-commit", log, operations, ["b"], (), unreadable=False)
        return repair_words(s for s in steps if s.does is not Repair.STOP)

    assert of("rollback") == "b was a rollback. Look what was committed since: running it again undoes that."
    assert "look at its rows" not in of("add-column") and of("add-column").startswith("Run b again")


def test_a_lost_operation_of_two_commits_is_not_brought_back_by_one_of_them() -> None:
    e = a_lost_append()
    log = e.logs["t"]
    lost = next(c for c in log.commits if c.op == "b")
    twice = replace(log, commits=(replace(lost, snapshot_id=99), *log.commits))  # the last one is listed
    assert "cherrypick" in said(e, "b") and "cherrypick" not in said(e, "b", twice)


def test_what_going_back_loses_is_done_again_in_the_order_of_its_commits() -> None:
    redo = RepairStep("Do {ops} again.", Repair.REDO, ("b", "a"))
    again = RepairStep("Run {ops}.", Repair.RUN_AGAIN, ("b", "a"))
    assert [s.ops for s in merged([redo, again], {"a": 0, "b": 1})] == [("b", "a"), ("a", "b")]


def test_going_back_loses_what_nobody_names_and_what_changed_no_file() -> None:
    b = broken()
    log = b.evidence.logs[b.table]
    operations = {o.op: o for o in b.evidence.history.operations()}
    none_lost = "No acknowledged commit is lost"
    assert none_lost in repair_words(repair("missing-file", log, operations, [], (), unreadable=True))
    unnamed = replace(log, commits=tuple(replace(c, op=None) if c is log.commits[-1] else c for c in log.commits))
    text = repair_words(repair("missing-file", unnamed, operations, [], (), unreadable=True))
    assert none_lost not in text and f"({b.table}: 1 commit)" in text
    late = next(o for o in reversed(operations.values()) if o.table == b.table)
    altered = {**operations, "w9-9": replace(late, op="w9-9", f="add-column", type="ok")}
    text = repair_words(repair("missing-file", log, altered, [], (), unreadable=True))
    assert none_lost not in text and f"Look whether {b.table} still has what w9-9 changed in its schema" in text


def test_files_of_a_branch_are_no_reason_to_expire_but_to_drop_it() -> None:
    e = lost_by_a_commit_on_an_older_base()
    log = e.logs["t"]
    old = next(c for c in log.main() if c.snapshot_id != log.metadata[-1].current)
    newest = replace(log.metadata[-1], refs={"audit": old.snapshot_id})
    gone = replace(log, metadata=(*log.metadata[:-1], newest), missing_files=(MissingFile("x", (old.snapshot_id,)),))
    assert said(e, "b", gone, name="missing-file").startswith("Main of t can be read; audit (branches or tags) and ")


def test_of_rows_with_one_id_only_those_that_a_delete_left_keep_it_wrong() -> None:
    """What updates made of them counts; what is inserted meanwhile is another row, though it has the same id."""
    d = Drawing("snapshot", mode="merge-on-read", format_version=2)
    one = row(1, "seed")
    changed, again, other = one._replace(val="u"), one._replace(val="v"), row(1, "i")
    d.did("seed", "insert", ids=[1], add=[one])
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-register", ids=[1], remove=[one], add=[changed])
    d.commit("d")
    d.ok("d")
    d.did("v", "update-register", ids=[1], remove=[changed], add=[again])
    assert removed_since(d.evidence().logs["t"], "d", (1,)) is None
    d.did("i", "insert", ids=[1], add=[other])
    d.did("x", "delete", ids=[1], remove=[again])
    assert removed_since(d.evidence().logs["t"], "d", (1,)) == (3, 6)
    assert removed_since(d.evidence().logs["t"], "never", (1,)) is None
