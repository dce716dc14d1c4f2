"""An Iceberg REST catalog answers 204 to POST /v1/transactions/commit and does not make the commit. Standard library only.

    docker run -p 8181:8181 apache/iceberg-rest-fixture      (RESTCatalogAdapter of Iceberg's tests; any REST catalog will do)
    python lost-transaction.py http://localhost:8181         exit code 1 if an acknowledged commit is not in the table
    python lost-transaction.py http://localhost:8181 table   the control: the same commits by the table's own endpoint

Four clients add empty snapshots to one table for five seconds. Each loads the table, then commits one snapshot on the current one,
and requires that main is still there. A 409 is a conflict: the client loads the table again. At the end, each snapshot that was
answered 2xx must be in the table.
"""

import json
import random
import sys
import threading
import time
import urllib.error
import urllib.request

server, by_table = sys.argv[1].rstrip("/"), "table" in sys.argv[2:]
namespace = f"lost_{random.randrange(1 << 32):x}"


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read() or b"{}")
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read() or b"{}")


def snapshot_on(metadata):
    """The id of a new snapshot, and the request that puts main there."""
    base, new = metadata.get("current-snapshot-id"), random.randrange(1 << 40, 1 << 62)
    base = None if base == -1 else base
    snapshot = {"snapshot-id": new, "sequence-number": metadata["last-sequence-number"] + 1, "schema-id": 0}
    snapshot |= {"timestamp-ms": int(time.time() * 1000), "summary": {"operation": "append"}}
    snapshot |= {"manifest-list": f"{metadata['location']}/{new}.avro"} | ({"parent-snapshot-id": base} if base else {})
    refs = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": new}
    return new, {
        "identifier": {"namespace": [namespace], "name": "t"},
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": base}],
        "updates": [{"action": "add-snapshot", "snapshot": snapshot}, refs],
    }


def client(acknowledged, refused, until):
    while time.monotonic() < until:
        new, change = snapshot_on(call("GET", table)[1]["metadata"])
        path, body = (table, change) if by_table else (f"{v1}/transactions/commit", {"table-changes": [change]})
        status, answer = call("POST", path, body)
        if status in (200, 204):
            acknowledged.append(new)
        elif status == 409:
            refused.append(new)
        else:
            print("unexpected:", status, answer)


config = call("GET", "/v1/config")[1]
prefix = {**config.get("defaults", {}), **config.get("overrides", {})}.get("prefix")
v1 = f"/v1/{prefix}" if prefix else "/v1"
table = f"{v1}/namespaces/{namespace}/tables/t"
fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
print(call("POST", f"{v1}/namespaces", {"namespace": [namespace]})[0], "namespace")
schema = {"type": "struct", "schema-id": 0, "fields": fields}
print(call("POST", f"{v1}/namespaces/{namespace}/tables", {"name": "t", "schema": schema})[0], "table")
acknowledged, refused, until = [], [], time.monotonic() + 5
clients = [threading.Thread(target=client, args=(acknowledged, refused, until)) for _ in range(4)]
for each in clients:
    each.start()
for each in clients:
    each.join()
listed = {s["snapshot-id"] for s in call("GET", table)[1]["metadata"]["snapshots"]}
if len(listed) <= 1 < len(acknowledged):
    sys.exit("this catalog lists the current snapshot only, so what it lost cannot be told this way")
lost = [s for s in acknowledged if s not in listed]
print(
    f"acknowledged {len(acknowledged)}, in the table {len(listed)}, refused with 409 {len(refused)}, LOST {len(lost)}"
)
sys.exit(1 if lost else 0)
