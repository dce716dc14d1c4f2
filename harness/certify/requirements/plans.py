"""A plan of a scan has the files of its snapshot, and there is none of what is gone."""

from __future__ import annotations

import contextlib
import time

from harness.certify import rest
from harness.certify.kit import TABLE_SCHEMA, Kit, KitTable
from harness.certify.requirement import (
    Exchanges,
    Judgement,
    Level,
    NotApplicable,
    Requirement,
    Severity,
    expect,
    failed,
    first_failure,
)

POLLS, POLL_S = 100, 0.1
"""A plan of two files that is not there after ten seconds is none."""
FILES = {"old": ("a",), "new": ("a", "b")}


def ask(kit: Kit) -> None:
    _ = kit.control  # before anything is made on a server of somebody else
    table, parent, old = kit.table(), None, 0
    for number, (label, files) in enumerate(FILES.items(), 1):
        made = table.snapshot(parent, number)
        kit.control.write_scan(TABLE_SCHEMA, made, [f"{made['manifest-list']}.{f}.parquet" for f in files])
        append = rest.append(made, parent)
        table.commit("set-up", *append)
        old, parent = old or made["snapshot-id"], made["snapshot-id"]
        _plan(kit, table, label, parent)
    table.commit("set-up", rest.remove_snapshots(old))
    _plan(kit, table, "expired", old)
    with contextlib.suppress(NotApplicable):  # a server that answers each plan at once has no plans to ask for
        kit.server.check_declares("GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}")
        kit.send("foreign", "GET", f"{table.path}/plan/icequake-no-plan")


def _plan(kit: Kit, table: KitTable, label: str, snapshot: int) -> None:
    found = kit.send(label, "POST", f"{table.path}/plan", {"snapshot-id": snapshot})
    for _ in range(POLLS):
        body = found.body if found.ok and isinstance(found.body, dict) else {}
        if body.get("status") != "submitted":
            break
        time.sleep(POLL_S)
        found = kit.send(f"{label}:poll", "GET", f"{table.path}/plan/{body['plan-id']}")
    for task in body.get("plan-tasks") or ():
        kit.send(f"{label}:task", "POST", f"{table.path}/tasks", {"plan-task": task})


def judge(seen: Exchanges) -> Judgement:
    for label, files in FILES.items():
        if failure := expect(seen.all(label)[0], "the snapshot is there", 2):
            return failure
        tasks = [t for e in seen.all(label) if isinstance(e.body, dict) for t in e.body.get("file-scan-tasks") or ()]
        found = sorted(t["data-file"]["file-path"].split(".")[-2] for t in tasks)
        if found != [*files]:
            return failed(f"the files {', '.join(files)}", ", ".join(found) or "none", *seen.all(label))
    last = seen.all("expired")[-1]
    ended = isinstance(last.body, dict) and last.body.get("status") in ("failed", "cancelled")
    wrong = None if ended else expect(last, "the snapshot is gone", 4)
    return first_failure(wrong, *(expect(e, "there is no such plan", 404) for e in seen.all("foreign")))


REQUIREMENT = Requirement(
    id="plans",
    group="life of the server",
    sentence="A plan has the files of its snapshot; of a snapshot or a plan that is not there there is none.",
    asked=(
        "icequake writes two snapshots with one and two files, asks for a plan of each, and again for the first "
        "one's after its expiry, with at most 100 polls each; then for a plan id that was never given. Only for "
        "servers that icequake runs."
    ),
    to_do=(
        "Plan from the manifests of the very snapshot that is asked for. Answer 4xx, or the status failed, if the"
        " snapshot is gone, and 404 to a plan id that was not given out."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.727, l.823",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",),
)
