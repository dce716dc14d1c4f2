"""Every kind of operation by name."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.operations.alterations import AddColumn, SetProperty, Upgrade, WidenColumn
from workloads.operations.deletes import Delete, DeletePartition, DeleteWhere
from workloads.operations.inserts import Insert, InsertSelect
from workloads.operations.kind import Kind
from workloads.operations.maintenance import (
    ExpireSnapshots,
    RemoveOrphanFiles,
    ReplaceTable,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    Rollback,
)
from workloads.operations.merges import MergeDelete, MergeInsert, MergeUpdate, MergeUpsert
from workloads.operations.overwrites import OverwritePartitions, OverwriteWhere
from workloads.operations.reads import Read, ReadKey, ReadSnapshot
from workloads.operations.two_tables import ReadBoth, Transfer
from workloads.operations.updates import (
    UpdateAppend,
    UpdateAppendWhere,
    UpdateCounter,
    UpdateCounterWhere,
    UpdateRegister,
    UpdateRegisterWhere,
)

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Insert(),
        InsertSelect(),
        UpdateRegister(),
        UpdateCounter(),
        UpdateAppend(),
        UpdateRegisterWhere(),
        UpdateCounterWhere(),
        UpdateAppendWhere(),
        Delete(),
        DeleteWhere(),
        DeletePartition(),
        OverwritePartitions(),
        OverwriteWhere(),
        MergeUpsert(),
        MergeInsert(),
        MergeUpdate(),
        MergeDelete(),
        Read(),
        ReadKey(),
        ReadSnapshot(),
        Transfer(),
        ReadBoth(),
        RewriteDataFiles(),
        RewritePositionDeleteFiles(),
        RewriteManifests(),
        ExpireSnapshots(),
        RemoveOrphanFiles(),
        ReplaceTable(),
        Rollback(),
        AddColumn(),
        WidenColumn(),
        SetProperty(),
        Upgrade(),
    )
}
"""Every kind by name: the allowed values of ``operations:`` in a workload file."""
