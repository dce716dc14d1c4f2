"""``fill``: the object store's disk is full."""

from nemesis.faults.suspects import NoTarget, Server, Suspect, Undo, contained
from nemesis.faults.verb import ProcessVerb


class Fill(ProcessVerb):
    """A file takes what is left of the store's disk, and goes when the fault ends. The disk is a small one, in memory."""

    name = "fill"
    summary = "the disk of the store's container is full to the last byte until the fault ends"
    targets = ("store",)
    contained = True

    def strike(self, suspect: Suspect) -> Undo:
        raise NoTarget(f"{self.name} strikes containers only, and {suspect.name} is none")

    def strike_server(self, server: Server) -> Undo:
        struck = contained(server, self.name)
        struck.fill()
        return struck.empty
