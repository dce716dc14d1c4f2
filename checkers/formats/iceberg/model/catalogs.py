"""How each catalog's client commits, from its code: what it asks, what the server compares, and what it makes of an answer that fails.

No defect is written down here, only what the code does. Lines are those of Iceberg 1.11.0 (tag ``apache-iceberg-1.11.0``), below
``core/src/main/java/org/apache/iceberg`` unless another folder is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Fault = Literal["reply lost", "503 after it was applied", "sent twice", "late", "lock expired", "statement refused"]
"""What can go wrong once with a request:

* ``reply lost``: the server did what was asked, and the client gets an error of the connection.
* ``503 after it was applied``: the same, and it gets 503 with ``Retry-After``, or 429, as from a proxy.
* ``sent twice``: the server gets it twice, and the client the second answer.
* ``late``: the client gets an error at once, and the server gets the request at any time later.
* ``statement refused``: the server's database refuses a statement of a transaction.
* ``lock expired``: the lock is given to others while its holder stands between its check and its request.
"""
Reaction = Literal["answer", "resend", "unknown", "check", "resend, check"]
"""What the client makes of it:

* ``answer``: it takes the answer that it got.
* ``resend``: it sends the same request again, and takes that answer.
* ``unknown``: ``CommitStateUnknownException``: it ends, and deletes nothing.
* ``check``: it loads the table: if its metadata file is there, or was, the commit succeeded, else as ``unknown``.
* ``resend, check``: it sends again; if that is refused, it loads the table: if its file was never there, it was refused, else it succeeded.
"""


@dataclass(frozen=True)
class ModelCatalog:
    """A catalog and its client.

    Attributes:
        compares: whether the server changes the pointer only if it is where the client read it.
        checks: whether the client itself compares, in a step of its own, before it asks.
        locks: whether it holds a lock from its check to its request.
        after: fault → what the client makes of it. Faults that are not there cannot be, or change nothing.
        source: where it is written.
        together: whether it commits the tables of a transaction in one step; None: it is asked for no transactions.
    """

    compares: bool
    source: str
    checks: bool = False
    locks: bool = False
    after: Mapping[Fault, Reaction] = field(default_factory=dict)
    together: bool | None = None


MODEL_CATALOGS: Mapping[str, ModelCatalog] = {
    "ideal": ModelCatalog(
        True,
        "compares, and a client that has no answer does not guess: SnapshotProducer.java:504",
        after={"reply lost": "unknown", "late": "unknown"},
    ),
    "none": ModelCatalog(False, "no one compares: HadoopTableOperations on a store without an atomic rename"),
    "jdbc": ModelCatalog(
        True,
        "jdbc/JdbcTableOperations.java:148-160: UPDATE … WHERE metadata_location = …, no row is CommitFailedException; "
        "ClientPoolImpl.java:74-79: after an error of the connection it runs the action again",
        after={"reply lost": "resend"},
    ),
    "jdbc-mended": ModelCatalog(
        True,
        "jdbc, whose client looks whether its own file is in the table's history before it says that it failed",
        after={"reply lost": "resend, check"},
    ),
    "rest": ModelCatalog(
        True,
        "rest/ErrorHandlers.java:127-133: 409 is CommitFailedException, 5xx is unknown; "
        "rest/ExponentialHttpRequestRetryStrategy.java:91, 138-155: 429, and 503 with Retry-After, are sent again; "
        "rest/RESTTableOperations.java:207-209: of an unknown one it loads the table and looks for its snapshot",
        after={"reply lost": "check", "503 after it was applied": "resend", "sent twice": "answer", "late": "check"},
    ),
    "rest-mended": ModelCatalog(
        True,
        "rest, whose server knows a request that it has answered (Idempotency-Key), so what is sent again gets the first answer",
        after={
            "reply lost": "check",
            "503 after it was applied": "resend, check",
            "sent twice": "resend, check",
            "late": "check",
        },
    ),
    "hive": ModelCatalog(
        False,
        "hive-metastore/…/hive/HiveTableOperations.java:241-428: lock, load, compare, alter_table (expects nothing if there is a lock), "
        "look after the lock: lost is unknown; RetryingMetaStoreClient.invoke (Hive) sends again what the connection was cut under, "
        "a second later",
        checks=True,
        locks=True,
        after={"reply lost": "resend", "late": "resend", "lock expired": "unknown"},
    ),
    "hive-cas": ModelCatalog(
        True,
        "hive with engine.hive.lock-enabled=false: HiveTableOperations.java:348-349: alter_table expects the location that was read "
        "(HIVE-26882); :391: refused, it looks whether its own file is in the history",
        checks=True,
        after={"reply lost": "check", "late": "check", "sent twice": "resend, check"},
    ),
    "glue-blind": ModelCatalog(
        False,
        "aws/…/glue/GlueTableOperations.java:156-160: load, compare, updateTable, on a server that ignores the version (moto)",
        checks=True,
        after={"reply lost": "check", "late": "check"},
    ),
    "glue": ModelCatalog(
        True,
        "aws/…/glue/GlueTableOperations.java:327-330: updateTable expects the version that was read; the SDK sends again, "
        ":169-174: refused after that, it looks whether its own file is in the history",
        checks=True,
        after={"reply lost": "resend, check", "late": "check"},
    ),
    "rest-transactions": ModelCatalog(
        True,
        "core/src/test/…/rest/RESTCatalogAdapter.java:554-577: checks every table, then commits one after the other; "
        "BaseTransaction.java:370, 443-459, applyUpdates: a table that has moved gets the transaction's own updates again; there are none",
        after={"statement refused": "unknown"},
        together=False,
    ),
    "ideal-transactions": ModelCatalog(
        True,
        "compares and commits all tables of a transaction in one step",
        after={"statement refused": "unknown"},
        together=True,
    ),
}
"""Name → catalog. What ends with ``-mended`` is not in Iceberg's code."""
