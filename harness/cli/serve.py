"""``icequake serve``: browses the runs of a store."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Annotated

import typer

from harness.cli import stopping
from harness.cli.command import Options
from harness.cli.options import DEFAULT_STORE, BadArgument, StoreOption, warn

PORT = 8765


@dataclass(frozen=True)
class ServeOptions(Options):
    """Browse a store in a browser: its runs with filters, their pages, two of them side by side. It only reads."""

    short = "Browse the runs of a store."

    store: StoreOption = DEFAULT_STORE
    host: Annotated[
        str, typer.Option(help="Name or address of this machine to listen on; 0.0.0.0: all of them.", show_default=True)
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.", show_default=True)
    ] = PORT
    name: Annotated[
        list[str] | None,
        typer.Option(help="Another name of this machine, by which browsers may ask; with --host 0.0.0.0. Repeatable."),
    ] = None

    def execute(self) -> int:
        from reports.serve.server import StoreServer

        if not self.store.is_dir():
            raise BadArgument(f"there is no store {self.store}; give the folder of the runs with --store")
        try:
            server = StoreServer(
                self.store, self.host, self.port, lambda line: typer.echo(line, err=True), self.name or ()
            )
        except OSError as e:
            raise BadArgument(_wrong(e, self.host, self.port)) from None
        stopping.current().way_on = lambda: "nothing is lost"
        with server:
            if not server.loopback:
                warn(f"--host {self.host}: everybody who reaches this machine can read the store")
            typer.echo(f"{server.url}  serves {self.store}; Ctrl-C ends it")
            server.serve()
        return 0


def _wrong(e: OSError, host: str, port: int) -> str:
    if e.errno == errno.EADDRINUSE:
        return f"--port {port}: something listens on {host}:{port} already; give another one, or 0 for any free one"
    if e.errno == errno.EACCES:
        return f"--port {port}: this user may not listen on it; give one from 1024 on"
    if e.errno == errno.EADDRNOTAVAIL or type(e).__name__ == "gaierror":
        return f"--host {host}: no name or address of this machine; give 127.0.0.1, ::1 or 0.0.0.0"
    return f"--host {host} --port {port}: {e.strerror}"
