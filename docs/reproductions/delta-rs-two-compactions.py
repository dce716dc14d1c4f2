"""deltalake 1.6.6: two compactions of one table, by handles of the same version, both commit, and every row is there twice.

    pip install deltalake==1.6.6 pyarrow && python delta-rs-two-compactions.py

It prints the rows after the second compaction (or overwrite, or delete of all). deltalake 1.6.3 refuses it: pip install deltalake==1.6.3.
The exit code is 1 if a table is not as it should be.
"""

import os
import sys
import tempfile
from importlib.metadata import version

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake


def rows(path):
    return sorted(pa.table(DeltaTable(path).to_pyarrow_table())["id"].to_pylist())


def after(second):
    """The rows of a table of 1, 2, 3 after a compaction, and then ``second`` by a handle that was opened before it; None: it was refused."""
    path = tempfile.mkdtemp()
    for n in (1, 2, 3):
        write_deltalake(path, pa.table({"id": [n]}), mode="append")
    one, other = DeltaTable(path), DeltaTable(path)
    one.optimize.compact()
    try:
        second(other)
    except Exception as e:
        print(f"    refused: {type(e).__name__}: {str(e).splitlines()[0]}")
        return None
    return rows(path)


SECOND = {
    "compact": (lambda t: t.optimize.compact(), [1, 2, 3]),
    "z_order": (lambda t: t.optimize.z_order(["id"]), [1, 2, 3]),
    "overwrite with 9": (lambda t: write_deltalake(t, pa.table({"id": [9]}), mode="overwrite"), [9]),
    "delete all": (lambda t: t.delete(), []),
}
wrong = 0
print(f"deltalake {version('deltalake')}, a table of 1, 2, 3; a compaction, and then by a handle from before it:")
for name, (second, right) in SECOND.items():
    found = after(second)
    if found is not None:
        wrong += found != right
        print(f"  {name}: {found}{'' if found == right else f', and not {right}'}")
sys.stdout.flush()
os._exit(1 if wrong else 0)  # deltalake's threads sometimes abort an interpreter that ends by itself
