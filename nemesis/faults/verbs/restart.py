"""``restart``: a service is stopped politely and started again."""

from nemesis.faults.suspects import StackServer, Suspect, Undo, nothing_to_undo
from nemesis.faults.verb import ProcessVerb


class Restart(ProcessVerb):
    """A service is stopped politely and started again at once. A driver or an executor is killed: others start it again."""

    name = "restart"
    summary = "the process is stopped politely and started again at once"
    production = "an update of the service, one process at a time"
    lasts = False

    def strike(self, suspect: Suspect) -> Undo:
        suspect.kill()
        return nothing_to_undo

    def strike_server(self, server: StackServer) -> Undo:
        server.restart()
        return nothing_to_undo
