"""Why a lake, or a question to it, cannot be used."""

from __future__ import annotations


class LakeError(ValueError):
    """A lake cannot be used; the message is one line with a remedy."""


class NotWritten(LakeError):
    """Its files, or its catalog, cannot be written, though it can be used."""


class Collision(LakeError):
    """Another run of the same name is in the lake."""


class QueryError(ValueError):
    """A statement that may not be asked, or that Spark does not understand; the message says why."""
