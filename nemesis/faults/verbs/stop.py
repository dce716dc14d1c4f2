"""``stop``: a service is stopped politely and stays down until the fault ends."""

from nemesis.faults.suspects import READY_SECONDS, StackServer, Suspect, Undo, nothing_to_undo
from nemesis.faults.verb import ProcessVerb


class Stop(ProcessVerb):
    """SIGTERM; when the fault ends, the service is started again with its data. A driver or an executor is killed: others start it again."""

    name = "stop"
    summary = "the process is stopped politely; it is started again with its data when the fault ends"
    production = "maintenance of the service"

    def strike(self, suspect: Suspect) -> Undo:
        suspect.kill()
        return nothing_to_undo

    def strike_server(self, server: StackServer) -> Undo:
        server.stop()

        def revive() -> None:
            server.start()
            server.ready(READY_SECONDS)

        return revive
