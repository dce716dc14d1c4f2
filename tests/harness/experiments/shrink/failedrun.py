"""A failed run on real Spark, as it was stored: two writers, a DELETE and an UPDATE of one row, and the row is still there."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import yaml

ZIP = Path(__file__).with_name("undelete.zip")


def failed_run(folder: Path, **changes: object) -> Path:
    """The run in ``folder/two/STAMP``, with changes to its plan."""
    run = folder / "two" / "20261122T145309.000Z"
    run.mkdir(parents=True)
    with zipfile.ZipFile(ZIP) as z:
        z.extractall(run)
    if changes:
        plan = yaml.safe_load((run / "plan.yaml").read_text())
        (run / "plan.yaml").write_text(yaml.safe_dump({**plan, **changes}, sort_keys=False))
    return run


def twice_failed_run(folder: Path) -> Path:
    """The run, and in it the same on a table ``u`` by two writers of DuckDB: no scenario of the library describes that one."""
    run = failed_run(folder)
    plan = yaml.safe_load((run / "plan.yaml").read_text())
    plan |= {"writers": 4, "engines": ["spark", "spark", "duckdb", "duckdb"]}
    plan["tables"].append({**plan["tables"][0], "name": "u"})
    plan["phases"][0] |= {"writers": 4, "length": {"ops": 4}}
    (run / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    (run / "tablelog" / "u.jsonl").write_text(_on_u((run / "tablelog" / "t.jsonl").read_text()))
    proxied = (run / "proxy.jsonl").read_text()
    (run / "proxy.jsonl").write_text(proxied + re.sub(r'"writer":([01])', _next_writer, _on_u(proxied)))
    header, *lines = (run / "history.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    again = [json.loads(_on_u(line)) for line in lines]
    again = [{**e, "process": e["process"] + 2, "engine": "duckdb"} for e in again]
    merged = sorted([*events, *again], key=lambda e: e["time"])
    said = json.loads(header) | {"writers": 4, "engines": plan["engines"]}
    made = [said, *({**e, "index": n} for n, e in enumerate(merged))]
    (run / "history.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in made))
    state = json.loads((run / "run.json").read_text()) | {"operations": 10}
    (run / "run.json").write_text(json.dumps(state))
    return run


def _on_u(text: str) -> str:
    """What is told of the table ``t`` and the writers 0 and 1, of ``u`` and 2 and 3."""
    text = re.sub(r"\bw([01])-(\d)", lambda m: f"w{int(m[1]) + 2}-{m[2]}", text)
    return (
        re.sub(r'"table":\s?"t"', '"table":"u"', text).replace('.t"', '.u"').replace("/t/", "/u/").replace('/t"', '/u"')
    )


def _next_writer(found: re.Match[str]) -> str:
    return f'"writer":{int(found[1]) + 2}'
