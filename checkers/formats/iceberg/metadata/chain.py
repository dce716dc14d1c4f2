"""The chain of versions of an Iceberg table: :mod:`checkers.timeline.version_order` with this format's records."""

from checkers.formats.iceberg.records import IcebergCommit, IcebergMetadata
from checkers.timeline.version_order import Chain, VersionStep

IcebergChain = Chain[IcebergCommit, IcebergMetadata]
IcebergStep = VersionStep[IcebergMetadata]
