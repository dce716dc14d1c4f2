"""``pause``: a process stops for a while."""

from nemesis.faults.suspects import Suspect, Undo
from nemesis.faults.verb import ProcessVerb


class Pause(ProcessVerb):
    """SIGSTOP until the fault ends: connections stay open, nothing answers."""

    name = "pause"
    summary = "SIGSTOP until the fault ends: connections stay open, nothing answers"
    production = "a long garbage collection, or a virtual machine that is moved"

    def strike(self, suspect: Suspect) -> Undo:
        suspect.pause()
        return suspect.resume
