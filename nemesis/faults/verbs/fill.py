"""``fill``: a disk is full."""

from nemesis.faults.suspects import NoTarget, StackServer, Suspect, Undo, fillable
from nemesis.faults.verb import ProcessVerb


class Fill(ProcessVerb):
    """A file takes what is left of the disk, and goes when the fault ends. The disk is a small one, in memory."""

    name = "fill"
    summary = "a container's disk is full to the last byte until the fault ends; of a Spark worker, the disk of its executors' scratch files"
    production = "a disk that nobody watches"
    targets = ("store", "database", "spark-worker")
    contained = True

    def strike(self, suspect: Suspect) -> Undo:
        raise NoTarget(f"{self.name} strikes containers only, and {suspect.name} is none")

    def strike_server(self, server: StackServer) -> Undo:
        struck = fillable(server, self.name)
        struck.fill()
        return struck.empty
