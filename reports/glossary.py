"""The words of icequake, for docs/glossary.md and ``icequake explain``.

``python -m reports.glossary`` prints docs/glossary.md. A test holds that the page is what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_HEAD = """# Glossary

The nouns of icequake, each with the file that defines it. One word means one thing: no two classes have the same name, and a test holds that.
The words of the field (linearizable, serializable, snapshot isolation, lost update) are Jepsen's, Adya's and Iceberg's;
[anomalies.md](anomalies.md) explains each anomaly. `icequake explain WORD` shows one of them. `python -m reports.glossary` makes this page.
"""


class Word(NamedTuple):
    """What a word is, in Markdown, and the class that defines it; empty: none does."""

    meaning: str
    class_name: str = ""
    file: str = ""


OPERATION_ID = "w2-39"
WORDS: Mapping[str, Mapping[str, Word]] = {
    "A run": {
        "workload": Word(
            "A file that says which tables, operations, writers and faults a run has.",
            "Workload",
            "workloads/file/workload.py",
        ),
        "phase": Word(
            "A part of a workload: a mix of operations, for a time or for a number of operations.",
            "Phase",
            "workloads/file/workload.py",
        ),
        "kind": Word(
            "A kind of operation, such as `merge-upsert`: its statement, and what it means in rows.",
            "Kind",
            "workloads/operations/kind.py",
        ),
        "engine": Word(
            "What executes operations: Spark, PyIceberg, DuckDB, Flink, delta-rs.",
            "Engine",
            "workloads/engines/engine.py",
        ),
        "writer": Word(
            "One client of the tables. It invokes one operation at a time.", "Writer", "harness/writers/slot.py"
        ),
        "driver": Word("The process in which a writer's engine runs.", "Driver", "harness/writers/driver.py"),
        "catalog": Word(
            "What decides which commit is current: REST, JDBC, Hive and others, with all that icequake must "
            "know of it.",
            "Catalog",
            "compose/catalogs/catalog.py",
        ),
        "stack": Word(
            "The servers of a run: object store, database, catalog, Spark.", "Stack", "compose/stack/stack.py"
        ),
        "bench": Word(
            "A stack with writers that are up, for one run after the other.", "Bench", "harness/run/bench.py"
        ),
        "nemesis": Word("The faults of a workload: which, when, and on whom.", "Nemesis", "workloads/file/workload.py"),
        "fault": Word("One way to harm a run, such as an answer that gets lost.", "Fault", "nemesis/faults/fault.py"),
        "fault window": Word(
            "The time in which a fault was active.", "FaultWindow", "checkers/timeline/fault_windows.py"
        ),
        "gate": Word(
            "Where requests wait, so that they reach a server in a chosen order.", "Gate", "nemesis/order/gate.py"
        ),
        "policy": Word(
            "Decides which request the gate lets through next: as recorded, by priority, or by coverage.",
            "Policy",
            "nemesis/order/policy.py",
        ),
        "seed": Word(
            "A number from which a run draws its operations, their keys, its faults and its priorities: the same seed draws the same ones. How "
            "long each takes is the machine's, so it need not find the same."
        ),
        "priority": Word(
            "Of `order: priority`: each writer has one, drawn from the seed; of the requests at the gate that of the highest goes first "
            "([order.md](order.md))."
        ),
        "plan": Word(
            "All that was decided before a run began: the seed, the tables, the versions.",
            "Plan",
            "checkers/evidence/plan.py",
        ),
    },
    "What a run leaves": {
        "history": Word("The events of all clients in their order.", "History", "checkers/evidence/history.py"),
        "event": Word(
            "The invocation of an operation, or its completion: `ok`, `fail`, or `info` if the outcome is unknown.",
            "Event",
            "checkers/evidence/history.py",
        ),
        "operation": Word("An invocation with its completion.", "Operation", "checkers/evidence/history.py"),
        "commit": Word(
            "One snapshot of a table, with the rows and files that it added and removed.",
            "Commit",
            "checkers/evidence/tablelog.py",
        ),
        "metadata": Word(
            "One version of a table: one metadata file of Iceberg, one version of Delta's log.",
            "Metadata",
            "checkers/evidence/tablelog.py",
        ),
        "table log": Word(
            "All commits and versions of a table, read from its own files and never through an engine.",
            "TableLog",
            "checkers/evidence/tablelog.py",
        ),
        "problem": Word(
            "Something in a table's files that cannot be read, or contradicts itself.",
            "Problem",
            "checkers/evidence/problem.py",
        ),
        "table format": Word(
            "Iceberg or Delta Lake: how a table's files are read, and the words for them.",
            "TableFormat",
            "checkers/evidence/tableformat.py",
        ),
        "evidence": Word(
            "A run's history, its table logs, the requests that its proxies saw, and its plan: what the "
            "checkers judge.",
            "Evidence",
            "checkers/evidence/evidence.py",
        ),
        "recording": Word(
            "The order of the requests of a run, which another run can repeat.",
            "Recording",
            "workloads/file/recording.py",
        ),
        "journal": Word(
            "A file that grows by a line a result, so that a stopped command goes on where it was.",
            "Journal",
            "checkers/evidence/journal.py",
        ),
    },
    "Judging": {
        "checker": Word("Decides one question on the evidence.", "Checker", "checkers/verdict.py"),
        "timeline": Word(
            "One table of the evidence: which operation made which snapshot, and what was current when.",
            "Timeline",
            "checkers/timeline/timeline.py",
        ),
        "verdict": Word(
            "What a checker concludes: valid, not valid, or unknown, with its anomalies.",
            "Verdict",
            "checkers/verdict.py",
        ),
        "anomaly": Word(
            "One broken promise, with the operations, rows and files that show it.", "Anomaly", "checkers/verdict.py"
        ),
        "meaning": Word(
            "What a name of an anomaly says: a sentence, the harm, the usual culprit, the remedy.",
            "Meaning",
            "checkers/names.py",
        ),
        "harm": Word("How bad an anomaly is, from lost rows to mere cost.", "Harm", "checkers/names.py"),
        "story": Word("Anomalies with one cause, told as one event.", "Story", "checkers/judge/stories.py"),
        "minimal history": Word(
            "The fewest operations of a run that still show an anomaly: `5 operations show it, and no fewer`."
        ),
        "known defect": Word(
            "A scenario of the library that explains the anomalies of a story.",
            "KnownDefect",
            "checkers/judge/known.py",
        ),
        "plant": Word(
            "A bug that `selftest` puts into the evidence of a good run, to see that a checker finds it.",
            "Plant",
            "checkers/selftest/plant.py",
        ),
        "attempt": Word(
            "One try of an operation to commit; a refused one is tried again.", "Attempt", "checkers/costs/attempts.py"
        ),
    },
    "Many runs": {
        "scenario": Word(
            "A file of a few operations in a fixed order that shows a defect, or that there is none.",
            "Scenario",
            "workloads/file/scenario.py",
        ),
        "proof": Word(
            "What came of a scenario: reproduced, not reproduced, or inconclusive.", "Proof", "checkers/judge/proof.py"
        ),
        "claim": Word(
            "A sentence of a document about Iceberg or Delta, with the command that measures it.",
            "Claim",
            "workloads/file/claims.py",
        ),
        "matrix": Word(
            "Which two kinds of operations conflict, for each pair: predicted from the rules, and measured.",
            "MatrixCell",
            "checkers/conflicts/predicted.py",
        ),
        "suite": Word(
            "A file that says which workloads a soak runs, on which catalogs and releases.",
            "Suite",
            "workloads/file/suite.py",
        ),
        "soak": Word(
            "Runs one after the other for a night, until its time is over.", "Soak", "harness/experiments/soak.py"
        ),
        "cell": Word(
            "One combination of a suite: a workload on a catalog with a release.", "Cell", "workloads/file/suite.py"
        ),
        "night": Word(
            "What a soak leaves: its runs, and the anomalies that are new.", "Night", "checkers/nights/night.py"
        ),
        "shrink": Word(
            "Makes a failed run smaller, as long as it still fails: `icequake shrink RUN`.",
            "Shrink",
            "harness/experiments/shrink/shrink.py",
        ),
        "trial": Word("One run of a smaller candidate.", "Trial", "harness/experiments/shrink/log.py"),
        "campaign": Word(
            "Many runs on warm stacks that become one result: what `prove`, `compare`, `sweep` and `soak` share.",
            "Campaign",
            "harness/campaign/campaign.py",
        ),
        "contender": Word("One setting of a comparison or a sweep.", "Contender", "checkers/costs/comparison.py"),
        "lake": Word("The Iceberg tables in which the numbers of all runs are kept.", "Lake", "harness/lake/lake.py"),
        "requirement": Word(
            "One thing that clients rely on, by the specification or by their code, and that `certify` asks a catalog for.",
            "Requirement",
            "harness/certify/requirement.py",
        ),
        "certificate": Word("A catalog's answers to all requirements.", "Certificate", "checkers/certificate.py"),
        "way": Word(
            "A sequence of steps by which the model reaches a broken promise.",
            "WaySearch",
            "checkers/formats/iceberg/model/faults.py",
        ),
    },
    "On a page and on the terminal": {
        "process": Word(
            "A client as the history numbers it; it invokes one operation at a time. After an operation of "
            "unknown outcome its writer goes on as another process, writer + number of writers."
        ),
        OPERATION_ID: Word("The id of an operation: writer 2, its operation number 39, both counted from 0."),
        "told": Word(
            "What a writer got as the end of its operation: `ok`, `fail`, or nothing. With a fault it may differ from what the catalog did."
        ),
        "guard": Word(
            "What keeps two commits from overwriting each other in a catalog: compare and swap (only the version that was read is replaced), a "
            "lock, or nothing ([catalogs/README.md](catalogs/README.md))."
        ),
        "wire": Word(
            "The protocol in which a writer asks its catalog: `http`, `postgres`, `thrift`, `aws` or `s3` (in a catalog's own file: `commit: "
            "{wire: http}`). A proxy of that protocol sees the requests, and faults strike them."
        ),
        "part": Word(
            "Of a row: the column by which a partitioned table is partitioned. A part of a workload is a phase."
        ),
        "maker": Word(
            "Of an engine: the project that makes it, whose tracker gets the report. Of a snapshot or a row: the operation that made it."
        ),
        "set back": Word(
            "Of a branch of a table: made to name an older snapshot again, by a rollback or by a lost commit. What came after it is no longer "
            "in its history."
        ),
        "unit": Word(
            "In what a number of the lake is counted: ms, s, a share from 0 to 1, a rate a second, or a count ([lake.md](lake.md))."
        ),
        "acknowledged": Word("The writer was told that its operation took effect (`ok`)."),
        "known": Word(
            "A scenario of the library shows the same anomalies. The line has the command that shows them and, "
            "if the defect is reported, a link."
        ),
        "new": Word("No scenario of the library, and no entry `known:` of the suite, explains what was found."),
        "documented": Word(
            "The documentation of the table format says that this may happen at the table's isolation level. It "
            "is an anomaly all the same."
        ),
        "expected": Word(
            "The workload or scenario says that this anomaly must be found (`expect:`, `anomalies:`); it does "
            "not make the run fail, and its absence does."
        ),
        "allowed": Word(
            "The workload or scenario says that this anomaly may be found (`allow:`); it does not make the run fail."
        ),
        "do now": Word(
            "What to do on a table in use on which this has happened, in this order; nothing is stopped or copied where no row is wrong."
        ),
        "avoid it": Word("What keeps it from happening again: a setting, another catalog, another release."),
        "untested": Word("What a run did not do, so that its verdict says nothing of it."),
        "reproduced": Word("A scenario showed its anomalies, all of them and no other ones."),
        "inconclusive": Word("A scenario did not run as its file says, so that it shows nothing."),
        "copy-on-write": Word(
            "An UPDATE, DELETE or MERGE writes whole data files again, without the old rows (Iceberg's "
            "`write.update.mode`, `write.delete.mode`, `write.merge.mode`)."
        ),
        "merge-on-read": Word(
            "An UPDATE, DELETE or MERGE leaves data files as they are and writes which rows of them are "
            "deleted: delete files or deletion vectors, which readers apply."
        ),
        "deletion vector": Word(
            "The positions of the deleted rows of one data file, as a bitmap: in a Puffin file (Iceberg version "
            "3) or in Delta's log."
        ),
        "snapshot": Word(
            "One state of a table, with all its files; each commit of data makes one. As the value of `write.delete.isolation-level` it is a "
            "level: see `icequake explain snapshot-isolation`."
        ),
        "card": Word(
            "What a run's page says of one event: what happened, who did it, what to do now, how to avoid it, and the evidence "
            "([tutorial.md](tutorial.md#5-how-to-read-a-card))."
        ),
        "combination": Word(
            "Of a night: a workload with a catalog, faults, a release, and how Spark runs. A suite file calls it a cell."
        ),
        "sequence number": Word(
            "The number of a commit of an Iceberg table, 1 for the first (format version 2 and later); the higher one is the later."
        ),
        "provoked": Word(
            "By what led to it: the faults that icequake made, the requests that it held, or nothing but the operations."
        ),
        **{
            f"write.{verb}.isolation-level": Word(
                f"A property of an Iceberg table: at which level {statement} is kept apart from other commits. At `serializable`, the default, "
                "it also looks for data files that were added since it read; at `snapshot` it does not."
            )
            for verb, statement in (("delete", "a DELETE"), ("update", "an UPDATE"), ("merge", "a MERGE"))
        },
    },
}
"""Section → word → what it is."""


def explained(word: str) -> Word | None:
    """What a word is; None if the glossary does not have it. The id of any operation is explained as that of one."""
    if found := re.fullmatch(r"w(\d+)-(\d+)", word):
        return Word(f"The id of an operation: writer {found[1]}, its operation number {found[2]}, both counted from 0.")
    return next((words[known] for words in WORDS.values() for known in [word.lower()] if known in words), None)


def page() -> str:
    """docs/glossary.md."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for section, words in WORDS.items():
        defined = any(w.file for w in words.values())
        yield f"\n## {section}\n\n| word | what it is |{' defined in |' * defined}\n|---|---|{'---|' * defined}\n"
        for word, w in words.items():
            yield f"| {word} | {w.meaning} |" + (f" [`{w.class_name}`](../{w.file}) |" if w.file else "") + "\n"


if __name__ == "__main__":
    print(page(), end="")
