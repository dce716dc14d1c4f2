"""What becomes of a container's packets: short-lived containers in its network set rules of ``iptables`` there, or a queue of ``tc netem``.

They need the capability NET_ADMIN, which no service has. What they set belongs to the network of the struck container: it survives the
container that set it, and ends with the struck one. The rules concern the ports of the service, and not the loopback of its container, on which
its health check knocks. The table of filters has no rules of anybody else: the engine's own, for names of the network, are in another table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from compose.processes.service import ServiceError
from nemesis.faults.packets import Packets

VARIABLE = "ICEQUAKE_NETWORK_IMAGE"
IMAGE = "nicolaka/netshoot:v0.13"
"""Has ``iptables`` and ``tc``."""
INTERFACES = "$(ls /sys/class/net | grep -v -e '^lo$' -e tunl -e gre -e sit -e erspan -e vti -e ip6)"
NO_NETEM = 3
"""Exit code of ``PROBE`` where the kernel has no netem."""
PROBE = f"""\
for d in {INTERFACES}; do
  said=$(tc qdisc add dev $d root netem delay 1ms 2>&1) || {{
    case $said in *unknown*|*"No such file"*|*"not found"*) exit {NO_NETEM};; *) echo "$said"; exit 1;; esac
  }}
  tc qdisc del dev $d root
done"""
LET_PASS = f"""\
iptables -w 5 -F INPUT && iptables -w 5 -F OUTPUT
for d in {INTERFACES}; do tc qdisc del dev $d root 2>/dev/null; done; true"""


def image() -> str:
    """The image of the containers that set the rules."""
    return os.environ.get(VARIABLE) or IMAGE


def script(packets: Packets, ports: Iterable[int]) -> str:
    """Shell commands that have the kernel do it.

    Args:
        ports: on which the server listens.
    """
    if packets.seconds:
        wait = f"delay {packets.seconds * 1000:g}ms" + (f" {packets.jitter * 1000:g}ms" if packets.jitter else "")
        return f"set -e\nfor d in {INTERFACES}; do tc qdisc add dev $d root netem {wait}; done"
    what = "REJECT --reject-with tcp-reset" if packets.reset else "DROP"
    chance = f"-m statistic --mode random --probability {packets.dropped:.6f} " if 0 < packets.dropped < 1 else ""
    lines = ["set -e"]
    for port in ports:
        if packets.reset or packets.direction != "replies":
            lines.append(f"iptables -w 5 -A INPUT ! -i lo -p tcp --dport {port} {chance}-j {what}")
        if not packets.reset and packets.direction != "requests":
            lines.append(f"iptables -w 5 -A OUTPUT ! -o lo -p tcp --sport {port} {chance}-j {what}")
    return "\n".join(lines)


def run(client: Any, container: str, commands: str, labels: Mapping[str, str]) -> int:
    """Run shell commands in the network of a container, with the right to change it.

    Args:
        labels: of the short-lived container, by which it is found if nobody removes it.

    Returns:
        0, or NO_NETEM.

    Raises:
        ServiceError: another exit code; one line with what they said.
        docker.errors.DockerException, OSError: from the engine.
    """
    struck = client.containers.get(container)
    made = client.containers.create(
        image(),
        entrypoint=["/bin/sh", "-c"],
        command=[commands],
        network_mode=f"container:{struck.id}",
        cap_add=["NET_ADMIN", "NET_RAW"],
        labels=dict(labels),
        mem_limit="64m",
        pids_limit=64,
    )
    try:
        made.start()
        code = int(made.wait()["StatusCode"])
        if code not in (0, NO_NETEM):
            log = " ".join(made.logs().decode("utf-8", "replace").split())
            raise ServiceError("network", f"the packets of {container} cannot be struck: {log[:300] or f'code {code}'}")
        return code
    finally:
        made.remove(force=True, v=True)
