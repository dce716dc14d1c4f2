"""Writes to a Delta table that SQL has no statement for, on the writer's side: by a stream, and by a DataFrame's option ``replaceWhere``.

An append by a stream is one batch of a new streaming query, whose sink is the table. Delta's sink is idempotent: a batch's version has an
action ``txn`` with the query's id and the batch's number, and a batch that is there already is not written again. A stream needs that after
a crash between its commit and its own note that the batch is done (``commits/0`` in the folder of its progress), so a second start here
finds the note gone.

Like ``harness.writers.session``, this module imports only the standard library.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any


def stream_append(spark: Any, table: str, rows: str, op: str, starts: int) -> None:
    """Append to a Delta table.

    Args:
        table: the table, as SQL names it: ``delta.`place` ``.
        rows: the SELECT of the rows.
        starts: how often the stream is started on its only batch.
    """
    with tempfile.TemporaryDirectory(prefix="icequake-stream-") as folder:
        source, progress = Path(folder, "source"), Path(folder, "progress")
        source.mkdir()
        (source / "one").write_text("one\n")
        for _ in range(starts):
            for note in (progress / "commits").glob("*0*"):
                note.unlink()
            batch = spark.readStream.text(source.as_uri()).crossJoin(spark.sql(rows)).drop("value")
            sink = batch.writeStream.format("delta").option("checkpointLocation", progress.as_uri())
            query = sink.option("userMetadata", op).trigger(availableNow=True).start(_place(table))
            query.awaitTermination()


def replace_where(spark: Any, table: str, rows: str, where: str | None) -> None:
    """Put the rows of a SELECT in place of those of a condition, or of all rows.

    By SQL (``INSERT INTO … REPLACE WHERE``) they would have to have all columns, those that were added meanwhile, too.
    """
    writer = spark.sql(rows).write.format("delta").mode("overwrite")
    (writer if where is None else writer.option("replaceWhere", where)).save(_place(table))


def _place(table: str) -> str:
    return table.split("`")[1]
