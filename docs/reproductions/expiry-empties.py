"""An expiry takes the snapshot that main was rolled back to, or that was tagged: main or the tag is gone. Standard library only.

    docker run -p 8181:8181 apache/iceberg-rest-fixture      (RESTCatalogAdapter of Iceberg's tests; any REST catalog will do)
    python expiry-empties.py http://localhost:8181           exit code 1 if main or the tag is gone

The expiry is the request that Iceberg's Java client sends: it requires the table's UUID, and nothing of its branches and tags. So it is
what a client sends that planned its expiry before another one rolled back or tagged.
"""

import json
import random
import sys
import time
import urllib.error
import urllib.request

server = sys.argv[1].rstrip("/")
namespace = f"expiry_{random.randrange(1 << 32):x}"


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read() or b"{}")
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read() or b"{}")


def ref(name, kind, before, after):
    """The parts of a commit that moves a branch or a tag, as Iceberg's client sends them."""
    requires = {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": before}
    return requires, {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": after}


def commit(what, requirements, updates):
    status, answer = call("POST", table, {"requirements": requirements, "updates": updates})
    if what:
        print(f"  {what}: {status} {answer.get('error', {}).get('message', '')}".rstrip())
    return status


config = call("GET", "/v1/config")[1]
prefix = {**config.get("defaults", {}), **config.get("overrides", {})}.get("prefix")
v1 = f"/v1/{prefix}" if prefix else "/v1"
call("POST", f"{v1}/namespaces", {"namespace": [namespace]})
gone = []
for name, what in (("emptied", "roll main back to the first snapshot"), ("tagged", "tag the first snapshot")):
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    status, made = call("POST", f"{v1}/namespaces/{namespace}/tables", {"name": name, "schema": schema})
    if status != 200:
        sys.exit(f"the table cannot be created: {status} {made}")
    table, ids = f"{v1}/namespaces/{namespace}/tables/{name}", []
    for n in range(2):
        parent, new = ids[-1] if ids else None, random.randrange(1 << 40, 1 << 62)
        snapshot = {
            "snapshot-id": new,
            "sequence-number": n + 1,
            "timestamp-ms": int(time.time() * 1000),
            "schema-id": 0,
        }
        snapshot |= {"summary": {"operation": "append"}, "manifest-list": f"{made['metadata']['location']}/{new}.avro"}
        snapshot |= {"parent-snapshot-id": parent} if parent else {}
        requires, moves = ref("main", "branch", parent, new)
        commit("", [requires], [{"action": "add-snapshot", "snapshot": snapshot}, moves])
        ids.append(new)
    print(name)
    requires, moves = ref("main", "branch", ids[1], ids[0]) if name == "emptied" else ref("keep", "tag", None, ids[0])
    commit(what, [requires], [moves])
    uuid = {"type": "assert-table-uuid", "uuid": made["metadata"]["table-uuid"]}
    commit("expire the first snapshot", [uuid], [{"action": "remove-snapshots", "snapshot-ids": [ids[0]]}])
    after = call("GET", table)[1]["metadata"]
    print(f"  refs {json.dumps(after.get('refs', {}))}, current-snapshot-id {after.get('current-snapshot-id')}")
    if not after.get("refs", {}).get("main" if name == "emptied" else "keep"):
        gone.append(name)
    call("DELETE", f"{table}?purgeRequested=true")
call("DELETE", f"{v1}/namespaces/{namespace}")
print(f"gone: {', '.join(gone)}" if gone else "main and the tag are there")
sys.exit(1 if gone else 0)
