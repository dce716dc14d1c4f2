"""DuckDB 1.5.5: an INSERT into a Delta table ignores its column list, and writes values into the wrong columns.

    pip install duckdb==1.5.5 duckdb-extension-delta==1.5.5 && python duckdb-delta-columns.py

It makes a Delta table with the columns a and b, inserts by both forms that name columns, and prints what DuckDB reads.
The exit code is 1 if a row is not as the statement says.
"""

import json
import sys
import tempfile
from pathlib import Path

import duckdb

table = Path(tempfile.mkdtemp()) / "t"
log = table / "_delta_log"
log.mkdir(parents=True)
fields = [{"name": name, "type": "integer", "nullable": True, "metadata": {}} for name in ("a", "b")]
metadata = {
    "id": "t",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps({"type": "struct", "fields": fields}),
    "partitionColumns": [],
    "configuration": {},
}
first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
(log / f"{0:020}.json").write_text("".join(f"{json.dumps(record)}\n" for record in first))

db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
built = next(Path(duckdb.__file__).parents[1].glob("duckdb_extension_delta/extensions/*/delta.duckdb_extension"), None)
db.execute(f"LOAD '{built}'" if built else "INSTALL delta; LOAD delta")
db.execute(f"ATTACH '{table}' AS t (TYPE delta, READ_WRITE)")
(version,) = db.execute("SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'delta'").fetchone()
print(f"DuckDB {duckdb.__version__}, extension for Delta {version}")
wrong = 0
for statement in ("INSERT INTO t (b, a) VALUES (20, 10)", "INSERT INTO t BY NAME SELECT 20 AS b, 10 AS a"):
    db.execute(statement)
    found = db.execute("SELECT a, b FROM t").fetchall()
    bad = [row for row in found if row != (10, 20)]
    print(f"{statement}\n  rows (a, b): {found}{f', and not {(10, 20)}' if bad else ''}")
    wrong += bool(bad)
sys.exit(1 if wrong else 0)
