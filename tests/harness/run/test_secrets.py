"""Secrets: in addresses, among a catalog's properties, in the details of an internal error, in the record of the kept stack."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import format_exception

import pytest
import yaml

from checkers.costs.comparison import Contender
from checkers.evidence import runfolder
from checkers.evidence.plan import Plan
from checkers.evidence.runfolder import RunFolder
from compose.catalogs import user_file
from compose.endpoints import Endpoints
from compose.external.external import External, ExternalError, external
from compose.install.installation import Installation
from compose.redaction import HIDDEN, Redaction, is_secret, masked, secrets_of
from harness.cli.crash import Crash, details_in
from harness.cli.failures import explain
from harness.experiments.compare import ComparisonPlan, _written_down
from harness.run import standing
from harness.run.context import context_of
from harness.run.errors import RunError
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack
from reports.run import page
from tests.compose.test_user_catalog import nobody
from tests.harness.cli.test_cli import SMALL, last_line
from tests.support.files import disk_of, files_of_at_most, fill
from tests.support.planted import forms_in, planted
from tests.support.runs import ROOT, Silent, environment, icequake
from workloads.file import workload as schema
from workloads.file import workload_text
from workloads.file.yamlfile import FileError

PASSWORD = "p@ss of the owl"
WRITTEN = "p%40ss%20of%20the%20owl"
ADDRESSES = (
    f"jdbc:postgresql://app:{WRITTEN}@db:5432/lake",
    f"jdbc:postgresql://db:5432/lake?user=app&password={WRITTEN}",
)


def described(folder: Path, uri: str, more: str = "") -> user_file.UserCatalogFile:
    file = folder / "mine.yaml"
    file.write_text(f'spark: {{type: jdbc, uri: "{uri}", warehouse: "s3://b/w"}}\n{more}')
    return user_file.load(file, {})


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("at postgresql://app:pw@h/d", f"at postgresql://app:{HIDDEN}@h/d"),
        ("redis://:pw@h", f"redis://:{HIDDEN}@h"),
        ("x://app:p@w@h/d", f"x://app:{HIDDEN}@h/d"),
        ("http://h/?api_key=k1&x=1", f"http://h/?api_key={HIDDEN}&x=1"),
        ("http://h/?x=1&key=k1", f"http://h/?x=1&key={HIDDEN}"),
        ("http://h/?X-Amz-Signature=a1&n=2", f"http://h/?X-Amz-Signature={HIDDEN}&n=2"),
        ("jdbc:sqlserver://h;user=a;password=b", f"jdbc:sqlserver://h;user=a;password={HIDDEN}"),
        ("client_secret=a, credential=b", f"client_secret={HIDDEN} credential={HIDDEN}"),
        ("http://h:9000/bucket of me@h, key=5, id=7", "http://h:9000/bucket of me@h, key=5, id=7"),
    ],
)
def test_an_address_shows_its_password_to_nobody_though_no_secret_is_known(text: str, hidden: str) -> None:
    assert Redaction(()).text(text) == hidden
    assert Redaction(()).text(hidden) == hidden


@pytest.mark.parametrize("uri", ADDRESSES)
def test_the_password_of_an_address_is_hidden_wherever_it_shows_up(uri: str, tmp_path: Path) -> None:
    hide = Redaction(external(described(tmp_path, uri), None, None).secrets)
    java = [["org.postgresql.util.PSQLException", f'FATAL: "{PASSWORD}" of app is wrong: {WRITTEN}']]
    assert hide.value(java) == [["org.postgresql.util.PSQLException", f'FATAL: "{HIDDEN}" of app is wrong: {HIDDEN}']]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "w0.log").write_text(f"connecting to {uri} with {PASSWORD}, then to x://other:pw@h/d")
    hide.folder(tmp_path / "logs")
    log = (tmp_path / "logs" / "w0.log").read_text()
    assert PASSWORD not in log and WRITTEN not in log and ":pw@" not in log


def test_an_error_in_the_file_of_a_catalog_does_not_show_its_password(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="names no single host and port") as e:
        described(tmp_path, f"jdbc:postgresql://app:{WRITTEN}@h1,h2/d", "commit: {wire: postgres}\n")
    assert WRITTEN not in str(e.value) and "app:" in str(e.value)


def test_an_address_of_a_store_that_is_refused_does_not_show_its_password() -> None:
    with pytest.raises(ExternalError) as e:
        external(None, f"http://me:{WRITTEN}@h:99999/b", None, {})
    assert WRITTEN not in str(e.value) and "give http://host:9000/bucket" in str(e.value)


class Failing(Silent):
    """Ends the run with an error whose text is that of a driver that cannot reach its catalog.

    Args:
        before: what happens before that.
    """

    def __init__(self, text: str, before: Callable[[], object] = lambda: None) -> None:
        self._text = text
        self._before = before

    def say(self, text: str) -> None:
        self._before()
        raise RuntimeError(self._text)


def run_that_fails(
    spec: schema.Workload, into: Path, text: str, found: External, before: Callable[[RunFolder], object] = lambda _: 0
) -> tuple[Run, RunFolder, RuntimeError]:
    """A run that failed with this text before its writers were up, its folder, and its error."""
    folder = runfolder.create(into, spec.workload)
    nowhere = into / "nowhere"
    installation = Installation(nowhere, nowhere, {}, nowhere, nowhere, nowhere, nowhere, nowhere)
    endpoints = Endpoints("http://h:1", "a", "b", "r", "bucket", "rest", "http://h:2", "s3://bucket/w", "local[1]")
    settings = Settings(seed=1, command="icequake run small", external=found)
    watcher = Failing(text, lambda: before(folder))
    run = Run(spec, folder, installation, settings, standing=StandingStack(endpoints), watcher=watcher)
    with pytest.raises(RuntimeError) as e:
        run.execute()
    return run, folder, e.value


def failed(spec: schema.Workload, into: Path, text: str, found: External) -> bytes:
    """All that a run leaves which fails with this text before its writers are up."""
    _, folder, _ = run_that_fails(spec, into, text, found)
    assert folder.state()["state"] == "failed" and "RuntimeError" in folder.state()["error"]
    return left_in(folder)


def left_in(folder: RunFolder) -> bytes:
    """The content of all files of a run."""
    return b"".join(p.read_bytes() for p in folder.path.rglob("*") if p.is_file())


@pytest.mark.parametrize("uri", ADDRESSES)
def test_a_run_that_fails_writes_no_password_of_an_address(uri: str, tmp_path: Path) -> None:
    found = external(described(tmp_path, uri), None, None)
    left = failed(
        workload_text.load(workload(tmp_path, {})), tmp_path, f"cannot reach {uri}: {PASSWORD} is wrong", found
    )
    assert PASSWORD.encode() not in left and WRITTEN.encode() not in left


def test_the_terminal_shows_no_password_of_an_address(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    with nobody() as port:
        file.write_text(f'spark: {{type: rest, uri: "http://app:{WRITTEN}@127.0.0.1:{port}"}}')
        done = icequake("run", "quick", "--store", tmp_path / "store", "--catalog", file)
    line = last_line(done.stderr)
    assert done.returncode == 255 and f"http://app:{HIDDEN}@127.0.0.1:{port}" in line
    assert WRITTEN not in done.stderr + done.stdout and PASSWORD not in done.stderr + done.stdout


# --- properties of a workload's catalog -------------------------------------------------------------------------------

TOKEN = "eyJhbGciOi"
PROPERTIES = {"token": TOKEN, "cache-enabled": "true", "uri": ADDRESSES[0], "token-refresh-enabled": "false"}


def workload(folder: Path, properties: dict[str, str]) -> Path:
    file = folder / "small.yaml"
    file.write_text(SMALL + yaml.safe_dump({"catalog_properties": properties}, allow_unicode=True))
    return file


def test_what_is_secret_among_properties_is_masked_and_known() -> None:
    assert masked(PROPERTIES) == PROPERTIES | {
        "token": HIDDEN,
        "uri": f"jdbc:postgresql://app:{HIDDEN}@db:5432/lake",
    }
    assert {*secrets_of(PROPERTIES)} >= {TOKEN, PASSWORD, WRITTEN} and "false" not in secrets_of(PROPERTIES)
    for name in (
        "s3.secret-access-key",
        "jdbc.password",
        "credential",
        "fs.s3a.access.key",
        "header.Authorization",
        "header.Cookie",
    ):
        assert is_secret(name), name
    for name in ("warehouse", "s3.access-key-id", "rest.auth.type", "cache-enabled"):
        assert not is_secret(name), name


def test_a_run_writes_the_names_of_secret_properties_alone(tmp_path: Path) -> None:
    spec = workload_text.load(workload(tmp_path, PROPERTIES))
    left = failed(spec, tmp_path, f"401: {TOKEN}, {PASSWORD}", External()).decode()
    assert TOKEN not in left and PASSWORD not in left and WRITTEN not in left
    assert f"token: {HIDDEN}" in left and "cache-enabled: 'true'" in left


KEY = "wJalrXUtn/K7MD+bPxRfi@CY:EX%AMPLE=="


def planting(folder: RunFolder) -> None:
    """Plant the key in every place of a run's logs."""
    for n, (_, text) in enumerate(planted(KEY)):
        (folder.logs / f"{n}.log").write_text(text)


def test_a_run_leaves_its_secret_in_none_of_forty_places(tmp_path: Path) -> None:
    text = "; ".join(text for _, text in planted(KEY))
    spec = workload_text.load(workload(tmp_path, {"s3.secret-access-key": KEY}))
    run, folder, error = run_that_fails(spec, tmp_path, text, External(), planting)
    assert len([*folder.logs.iterdir()]) >= 40 and "RuntimeError" in folder.state()["error"]
    assert not forms_in(KEY, left_in(folder)) and not forms_in(KEY, "".join(format_exception(error)).encode())
    assert not run.notes and "notes" not in folder.state()


def test_a_run_on_a_full_disk_leaves_its_secret_in_no_log(tmp_path: Path) -> None:
    spec = workload_text.load(workload(tmp_path, {"s3.secret-access-key": KEY}))
    with disk_of("6m", tmp_path / "disk") as disk:

        def full(folder: RunFolder) -> None:
            planting(folder)
            fill(disk)

        run, folder, error = run_that_fails(spec, disk / "store", "no", External(), full)
        assert len([*folder.logs.iterdir()]) >= 40 and not forms_in(KEY, left_in(folder))
        assert str(error) == "no" and not run.notes


def test_a_log_that_cannot_be_cleaned_is_removed_and_the_run_says_so(tmp_path: Path) -> None:
    spec = workload_text.load(workload(tmp_path, {"s3.secret-access-key": KEY}))
    with contextlib.ExitStack() as stack:

        def limited(folder: RunFolder) -> None:
            (folder.logs / "w0.log").write_text(KEY + "x" * 100_000 + KEY)
            (folder.logs / "w1.log").write_text(KEY)
            stack.enter_context(files_of_at_most(50_000))

        run, folder, _ = run_that_fails(spec, tmp_path, "no", External(), limited)
    assert [p.name for p in folder.logs.iterdir()] == ["w1.log"] and not forms_in(KEY, left_in(folder))
    assert run.notes == [f"{folder.logs / 'w0.log'} was removed, because secrets could not be taken out of it"]
    assert folder.state()["notes"] == run.notes


def test_a_run_whose_log_can_be_neither_cleaned_nor_removed_names_it_and_ends_with_255(tmp_path: Path) -> None:
    spec = workload_text.load(workload(tmp_path, {"s3.secret-access-key": KEY}))
    with disk_of("1m", tmp_path / "disk") as disk, contextlib.ExitStack() as stack:

        def unwritable(folder: RunFolder) -> None:
            (disk / "w0.log").write_text(KEY)
            place = folder.logs / "server"
            place.mkdir()
            subprocess.run(["mount", "--bind", str(disk), str(place)], check=True, timeout=60)
            stack.callback(subprocess.run, ["umount", str(place)], check=True, timeout=60)
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, timeout=60)

        _, folder, error = run_that_fails(spec, tmp_path, f"not with {KEY}", External(), unwritable)
    assert isinstance(error, RunError) and explain(Crash(error), "icequake --help") == 255
    assert str(error).startswith("may hold a secret, and could be neither cleaned nor removed: ")
    assert str(folder.logs / "server" / "w0.log") in str(error) and f"RuntimeError: not with {HIDDEN}" in str(error)
    assert folder.state()["state"] == "failed" and folder.state()["error"] == str(error)


def test_a_run_says_once_whose_secret_is_too_short_to_be_searched_for(tmp_path: Path) -> None:
    spec = workload_text.load(
        workload(tmp_path, {"jdbc.password": "ice", "uri": "jdbc:x://a:quake@h/d", "token": TOKEN})
    )
    run, folder, _ = run_that_fails(spec, tmp_path, "pyiceberg knows ice, quake and icequake", External())
    (told,) = folder.state()["notes"]
    assert told.startswith("jdbc.password, uri: a secret with fewer than 8 characters") and run.notes == [told]
    assert folder.state()["error"] == f"RuntimeError: pyiceberg knows {HIDDEN}, {HIDDEN} and icequake"


def test_a_run_of_a_recorded_plan_takes_hidden_properties_from_the_environment_and_hides_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = workload_text.load(workload(tmp_path, PROPERTIES))
    recorded = spec.model_copy(update={"catalog_properties": masked(PROPERTIES)})
    folder, nowhere = runfolder.create(tmp_path, "small"), tmp_path / "nowhere"
    installation = Installation(nowhere, nowhere, {}, nowhere, nowhere, nowhere, nowhere, nowhere)
    with pytest.raises(
        RunError, match="token is a secret that was not stored; set the environment variable ICEQUAKE_CATALOG_TOKEN to"
    ):
        context_of(recorded, folder, installation, Settings(seed=1, command="icequake run small"), Silent())
    monkeypatch.setenv("ICEQUAKE_CATALOG_TOKEN", TOKEN)
    monkeypatch.setenv("ICEQUAKE_CATALOG_URI", ADDRESSES[0])
    context = context_of(recorded, folder, installation, Settings(seed=1, command="icequake run small"), Silent())
    assert context.workload == spec
    left = failed(recorded, tmp_path, f"401: {TOKEN}, {PASSWORD}", External()).decode()
    assert TOKEN not in left and PASSWORD not in left and WRITTEN not in left
    assert f"token: {HIDDEN}" in left and "cache-enabled: 'true'" in left


def test_the_page_of_an_older_plan_shows_no_secret_property(tmp_path: Path) -> None:
    folder = runfolder.create(tmp_path, "small")
    folder.write_plan(Plan(workload="small", catalog_properties=PROPERTIES))
    folder.history.write_text('{"format": 1}\n')
    shown = page.render(folder.path)
    assert TOKEN not in shown and WRITTEN not in shown and "cache-enabled" in shown


def test_a_property_that_was_masked_is_asked_for_again(tmp_path: Path) -> None:
    with pytest.raises(FileError) as e:
        workload_text.load(workload(tmp_path, masked(PROPERTIES)))
    assert "token: ‹hidden› stands for a secret that was not stored; put the secret there" in str(e.value)
    assert str(e.value).startswith(f"{tmp_path / 'small.yaml'}:")


def test_a_comparison_keeps_no_secret_property(tmp_path: Path) -> None:
    spec = workload_text.load(workload(tmp_path, PROPERTIES))
    order = ComparisonPlan(spec, (Contender("rest", "1"), Contender("jdbc", "1")), (1,), lambda *_: "", 1, False)
    text = json.dumps(order.header())
    assert TOKEN not in text and WRITTEN not in text and '"token"' in text
    assert _written_down(order.header()["workload"]) == order.header()["workload"]


# --- the details of an internal error ---------------------------------------------------------------------------------

CRASH = """
import sys
from harness.cli import app
def crash(*_):
    raise ZeroDivisionError("at jdbc:postgresql://app:hunter22@db/lake")
{imported}
{where} = crash
sys.argv = ["icequake", *sys.argv[1:]]
app.main()
"""


def crashed(where: str, *arguments: str | Path, **more: str) -> tuple[str, Path]:
    """The last line of a command that crashes at ``where``, and the file with the details."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            CRASH.format(imported=f"import {where.rpartition('.')[0]}", where=where),
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(**more),
        cwd=ROOT,
    )
    line = last_line(done.stderr)
    assert done.returncode == 255 and "internal error: ZeroDivisionError" in line
    return line, Path(line.partition("the details are in ")[2].partition(";")[0])


def test_the_details_of_a_crash_are_redacted_and_for_their_user_alone(tmp_path: Path) -> None:
    line, log = crashed("checkers.evidence.runfolder.find", "report", tmp_path, TMPDIR=str(tmp_path))
    assert "hunter22" not in line + log.read_text()
    assert "Traceback" in log.read_text() and "ZeroDivisionError" in log.read_text()
    assert log.parent == tmp_path and stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_details_of_a_crash_are_in_the_folder_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("tables: []\n")
    (tmp_path / "history.jsonl").write_text('{"format": 1}\n')
    line, log = crashed("checkers.judge.runfolder.load_evidence", "check", tmp_path)
    assert log.parent == tmp_path and "hunter22" not in line + log.read_text()


def test_the_details_of_a_crash_follow_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for n in range(3):
        (tmp_path / f"icequake-error-{n}.log").symlink_to(victim)
    written = {Crash(ValueError("x"), tmp_path).write() for _ in range(3)}
    assert victim.read_text() == "mine" and len(written) == 3


def test_the_innermost_folder_and_all_secrets_of_a_crash_count(tmp_path: Path) -> None:
    (inner := tmp_path / "run").mkdir()
    with pytest.raises(Crash) as e, details_in(tmp_path, [TOKEN]), details_in(inner, [PASSWORD]):
        raise ValueError(f"{TOKEN} and {PASSWORD}")
    log = e.value.write()
    assert log.parent == inner and TOKEN not in log.read_text() and PASSWORD not in log.read_text()


def test_a_crash_without_the_folder_that_it_was_to_make_has_details_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert Crash(ValueError("x"), tmp_path / "never made").write().parent == tmp_path


# --- the kept stack ---------------------------------------------------------------------------------------------------


def test_the_record_of_the_kept_stack_is_for_its_user_alone(tmp_path: Path) -> None:
    file = standing._file(tmp_path)
    before = os.umask(0)
    try:
        file.parent.mkdir(mode=0o777)
        standing._write(file, {"secret_key": PASSWORD})
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text()) == {"secret_key": PASSWORD} and os.listdir(file.parent) == [file.name]
