"""``maintain``: maintenance while writers work."""

from nemesis.faults.verb import MaintenanceVerb


class Maintain(MaintenanceVerb):
    """An additional writer invokes the operation ``do``, with the arguments ``value``."""

    name = "maintain"
    summary = "an additional writer invokes the operation `do`"
    production = "a maintenance job that somebody scheduled beside the writers"
    fields = ("do", "value")
    needs = ("do",)
