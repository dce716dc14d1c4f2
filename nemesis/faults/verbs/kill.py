"""``kill``: a process dies."""

from nemesis.faults.suspects import READY_SECONDS, StackServer, Suspect, Undo, nothing_to_undo
from nemesis.faults.verb import ProcessVerb


class Kill(ProcessVerb):
    """SIGKILL. When the fault ends, a service is started again with its data."""

    name = "kill"
    summary = "SIGKILL; the process is started again with its data when the fault ends"
    production = "a process that is killed for its memory, or a host that fails"

    def strike(self, suspect: Suspect) -> Undo:
        suspect.kill()
        return nothing_to_undo

    def strike_server(self, server: StackServer) -> Undo:
        server.kill()

        def revive() -> None:
            server.start()
            server.ready(READY_SECONDS)

        return revive
