"""delta-rs on S3: the reply to a commit is lost, another commit follows, and rows are there twice, or back from the dead.

    mkdir -p data/bucket && MINIO_ROOT_USER=minio MINIO_ROOT_PASSWORD=minio123 minio server data
    pip install deltalake==1.6.6 pyarrow
    AWS_ACCESS_KEY_ID=minio AWS_SECRET_ACCESS_KEY=minio123 python delta-rs-lost-reply.py http://localhost:9000 bucket

A proxy in this file passes on all requests of writer A. One reply it keeps: that to A's PUT of the next version, which the store has carried
out. When writer B has committed behind it, the proxy breaks A's connection. A sends its PUT again, is refused because its own version is
there, and commits the same files once more. Both writers are told that they succeeded. The exit code is 1 if a table is not as it should be.
"""

import http.client
import os
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

STORE, BUCKET = urlsplit(sys.argv[1]).netloc, sys.argv[2]
armed, made, go_on = threading.Event(), threading.Event(), threading.Event()


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        store = http.client.HTTPConnection(STORE, timeout=30)
        store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            store.putheader(name, value)
        store.endheaders(body)
        reply = store.getresponse()
        content = reply.read()
        if self.command == "PUT" and "/_delta_log/" in self.path and reply.status == 200 and armed.is_set():
            armed.clear()
            made.set()
            go_on.wait(30)
            self.close_connection = True
            return
        self.send_response_only(reply.status, reply.reason)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = reply.headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = pass_on

    def log_message(self, *_):
        pass


def options(address):
    return {"AWS_ENDPOINT_URL": f"http://{address}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", **os.environ}


def rows(place):
    return sorted(pa.table(DeltaTable(place, storage_options=options(STORE)).to_pyarrow_table())["id"].to_pylist())


def run(lose, first, behind):
    """The rows after A does ``first`` and B ``behind``, on a table of 1 to 5; ``lose``: A's reply is lost, and B comes before A knows."""
    place = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    write_deltalake(place, pa.table({"id": [1, 2, 3]}), storage_options=options(STORE))
    write_deltalake(place, pa.table({"id": [4, 5]}), mode="append", storage_options=options(STORE))
    for event in (made, go_on):
        event.clear()
    a = DeltaTable(place, storage_options=options(f"127.0.0.1:{proxy.server_port}"))
    told = []

    def writer_a():
        try:
            first(a)
            told.append("ok")
        except Exception as e:
            told.append(f"{type(e).__name__}: {str(e).splitlines()[0]}")

    thread = threading.Thread(target=writer_a)
    if lose:
        armed.set()
        thread.start()
        made.wait(30)
        behind(DeltaTable(place, storage_options=options(STORE)))
        go_on.set()
    else:
        thread.start()
        thread.join()
        behind(DeltaTable(place, storage_options=options(STORE)))
    thread.join()
    return told[0], rows(place)


def append(table):
    write_deltalake(table, pa.table({"id": [100, 101]}), mode="append")


def compact(table):
    table.optimize.compact()


proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
wrong = 0
print(f"deltalake {version('deltalake')}, a table of 1, 2, 3, 4, 5; A's reply is lost, and B commits next:")
for name, first, behind in (
    ("A appends 100 and 101, B compacts", append, compact),
    ("A appends 100 and 101, B deletes 100", append, lambda t: t.delete("id = 100")),
    ("A appends 100 and 101, B updates 100", append, lambda t: t.update(predicate="id = 100", updates={"id": "100"})),
    ("A compacts, B deletes 1", compact, lambda t: t.delete("id = 1")),
):
    right, (answer, found) = run(False, first, behind)[1], run(True, first, behind)
    wrong += found != right
    print(f"  {name}: A is told {answer}; {found}" + ("" if found == right else f", and without the loss {right}"))
proxy.shutdown()
sys.stdout.flush()
os._exit(1 if wrong else 0)  # deltalake's threads sometimes abort an interpreter that ends by itself
