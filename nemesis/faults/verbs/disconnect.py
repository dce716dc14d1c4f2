"""``disconnect``: a container is taken out of its network for a while."""

from nemesis.faults.suspects import READY_SECONDS, NoTarget, StackServer, Suspect, Undo, contained
from nemesis.faults.verb import ProcessVerb


class Disconnect(ProcessVerb):
    """The engine takes the container out of the run's network, and puts it back when the fault ends. The server itself goes on."""

    name = "disconnect"
    summary = "the container has no network until the fault ends; the server goes on"
    production = "a host that loses its network and runs on"
    targets = ("catalog", "database", "store")
    contained = True

    def strike(self, suspect: Suspect) -> Undo:
        raise NoTarget(f"{self.name} strikes containers only, and {suspect.name} is none")

    def strike_server(self, server: StackServer) -> Undo:
        struck = contained(server, self.name)
        struck.disconnect()

        def reconnect() -> None:
            struck.reconnect()
            struck.ready(READY_SECONDS)

        return reconnect
