"""The command ``certify``: its lines, its files, its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from checkers.certificate import (
    Certificate,
    Conclusion,
    Exchange,
    Level,
    Question,
    RequirementResult,
    Severity,
    compared,
)
from harness.campaign.stacks import WarmStacks
from harness.certify import kit
from harness.certify.certify import asked_once, concluded, read
from harness.certify.exchanges import Exchanges
from harness.certify.kit import ServerDescription, SetUpError
from harness.certify.requirement import Judgement, failed, keeps_acknowledged, passed
from harness.certify.requirements import GROUPS, document, how, requirements
from harness.cli.app import app
from harness.cli.crash import Crash
from harness.cli.failures import BAD_INPUT, explain
from reports import certify as page
from reports.drawing import render
from tests.harness.certify import mutants
from tests.support.restcatalog import Catalog, Json, Reply, described, serving
from tests.support.runs import ROOT

ALL = len(requirements())
FAST = "null-ref,duplicate-commit,txn-same-table-twice,key-replays"


class Forgetful(Catalog):
    """Of two changes of one table in a transaction it makes the first, as Iceberg's own test server does, until it is mended."""

    mended = False

    def transact(self, changes: list[Json]) -> Reply:
        first = {c["identifier"]["name"]: c for c in reversed(changes)}
        return super().transact(changes if self.mended else list(first.values()))


class Keyless(Catalog):
    def config(self) -> Json:
        return {k: v for k, v in super().config().items() if k != "idempotency-key-lifetime"}


class Unable(Catalog):
    """It has a configuration, and no room for a table."""

    def create_table(self, space: str, body: Json) -> Reply:
        return Reply(503)


LAST_READS = {
    "acknowledged-is-kept": ("/t", 8),
    "namespace-props-merge": ("_0", 8),
    "rename-keeps-commits": ("/c0", 0),
    "views-no-loss": ("/v", 3),
}
"""Requirement → how the path ends of a read that decides, and how many writes come before it."""


class Mute(Catalog):
    """After some writes it answers a read that decides with 503."""

    def __init__(self, id: str) -> None:
        super().__init__()
        self.path, self.writes = LAST_READS[id]

    def answer(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        self.writes -= method == "POST"
        if method == "GET" and path.endswith(self.path) and self.writes < 0:
            return Reply(503)
        return super().answer(method, path, query, headers, data)


class Denying(Catalog):
    def answer(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        if path == "/v1/oauth/tokens":
            return Reply(400, {"error": "invalid_client"})
        return super().answer(method, path, query, headers, data)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    with serving(Forgetful()) as uri:
        file = tmp_path / "mine.yaml"
        file.write_text(f"spark: {{type: rest, uri: '{uri}'}}\n")
        yield file


def typed(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["certify", *map(str, words)], standalone_mode=False)
    return 254 if result.exception else result.return_value, result.output + str(result.exception or "")


class Recording(Catalog):
    """It keeps which namespaces were made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def answer(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        if method == "POST" and path.endswith("/namespaces"):
            self.made.append(json.loads(data)["namespace"][0])
        return super().answer(method, path, query, headers, data)


def test_requirements_that_ask_the_same_are_asked_once_and_each_is_judged(tmp_path: Path) -> None:
    rivals = ("one-winner-per-base", "refused-is-not-applied", "raced-conflict-is-409")
    catalog, into = Recording(), tmp_path / "into"
    with serving(catalog) as uri:
        file = tmp_path / "mine.yaml"
        file.write_text(f"spark: {{type: rest, uri: '{uri}'}}\n")
        code, out = typed("--catalog", file, "--only", ",".join(rivals), "--repeat", 2, "--into", into)
        assert code == 0, out
        assert len(catalog.made) == 2, "one for each try, not for each requirement"
        answers = read(into / "certify.json").answers
        assert sorted(a.id for a in answers) == sorted(rivals) and {a.tries for a in answers} == {2}
        code, out = typed("--catalog", file, "--only", ",".join(rivals), "--repeat", 2, "--into", into)
        assert code == 0 and len(catalog.made) == 4, "a new certificate is asked anew"


def test_the_page_is_there_before_the_servers_are_ended(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into, there = tmp_path / "into", []
    end = WarmStacks.close

    def close(stacks: WarmStacks[ServerDescription]) -> None:
        there.append((into / "certify.html").exists())
        end(stacks)

    monkeypatch.setattr(WarmStacks, "close", close)
    code, out = typed("--catalog", own, "--only", "null-ref", "--into", into)
    assert code == 0 and there == [True], out


def test_a_foreign_server_is_certified_by_its_file_alone(own: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    code, out = typed("--catalog", own, "--only", FAST, "--into", into, "--quiet")
    assert code == 1, out
    assert f"1 of 4 requirements fails and loses data; 4 of {ALL} asked; 2/3 must" in out and "· 0 n/a" in out
    stored = json.loads((into / "certify.json").read_text())
    (lost,) = [a for a in stored["answers"] if a["conclusion"] == "fail"]
    assert lost["id"] == "txn-same-table-twice" and lost["tries"] == lost["alike"] == 3
    assert any(e["path"] == "/v1/transactions/commit" and e["status"] == 204 for e in lost["wire"])
    assert 'failures="1"' in (into / "junit.xml").read_text()
    assert json.loads((into / "badge.json").read_text())["color"] == "red"
    assert "POST /v1/transactions/commit" in (into / "certify.html").read_text()


def test_a_part_of_a_certificate_says_so_wherever_it_is_shown(tmp_path: Path) -> None:
    file, into = tmp_path / "mine.yaml", tmp_path / "into"
    with serving(Keyless()) as uri:
        file.write_text(f"spark: {{type: rest, uri: '{uri}'}}\n")
        code, out = typed("--catalog", file, "--only", "null-ref,key-replays", "--into", into, "--quiet")
    says = f"1 of {ALL} asked"  # the other one does not apply
    assert code == 0 and f"mine: none of 1 requirements fails; {says}; 1/1 must" in out
    assert f"mine: none of 1 requirements fails; {says}" in (into / "certify.html").read_text()
    whole = json.loads((into / "certify.json").read_text())
    assert says in whole["headlines"]["mine"] and whole["asked"] == {"mine": says}
    seal = json.loads((into / "badge.json").read_text())
    assert seal["message"].startswith(f"{says} · 1/1 must") and seal["color"] == "yellow", "it is no certificate"


def test_a_badge_is_that_of_its_catalog_alone() -> None:
    bad = answer(Level.MUST, Severity.LOSS, Conclusion.FAIL)
    questions = [Question(bad.id, "", "", bad.level, "", bad.effect)]
    both = Certificate(
        {"c": "", "d": ""}, questions, [bad, replace(bad, catalog="d", conclusion=Conclusion.PASS)], "", "", ""
    )
    assert [page.badge_json(both, name)["color"] for name in both.servers] == ["red", "brightgreen"]
    assert both.exit_code == 1


def test_what_files_it_may_have_left_is_named_with_how_to_remove_them(own: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    _, out = typed("--catalog", own, "--only", "null-ref,duplicate-commit", "--into", into)
    assert "asking mine, which is up" in out and "starting" not in out
    assert "catalog mine: " in out and "Catalog mine" not in out
    places = (into / "left.txt").read_text().splitlines()
    assert len(places) == len(set(places)) >= 6 and all(p.startswith("s3://reference/iq_") for p in places), places
    assert (
        f"{len(places)} folders of dropped tables below s3://reference may have files: {into / 'left.txt'}; remove them: "
        in out
    )
    assert f"tr '\\n' '\\0' < {into / 'left.txt'} | xargs -0 -n1 aws s3 rm --recursive (aws: the AWS CLI" in out


def test_the_command_that_removes_files_reaches_the_store_of_the_file(own: Path, tmp_path: Path) -> None:
    own.write_text(own.read_text() + "s3: http://minio:9000/lake\n")
    _, out = typed("--catalog", own, "--only", "null-ref", "--into", tmp_path / "into", "--quiet")
    assert (
        f"< {tmp_path / 'into' / 'left.txt'} | xargs -0 -n1 aws s3 rm --recursive --endpoint-url http://minio:9000"
        in out
    )


def test_files_that_are_gone_are_not_named(tmp_path: Path) -> None:
    """A catalog of PyIceberg writes the metadata, so its tables are folders here."""
    file, into = tmp_path / "mine.yaml", tmp_path / "into"
    place = tmp_path / "my 'own' files"
    file.write_text(
        f"spark: {{type: jdbc, uri: 'jdbc:sqlite:{tmp_path / 'c.db'}'}}\nwarehouse: \"file://{place}\"\n",
        "utf-8",
    )
    words = "--catalog", file, "--only", "duplicate-commit", "--into", into, "--quiet"
    _, out = typed(*words)
    places = (into / "left.txt").read_text().splitlines()
    remove = f"tr '\\n' '\\0' < {into / 'left.txt'} | xargs -0 -n1 rm -r --"
    assert all(Path(p).is_dir() for p in places) and remove in out
    assert {p.parent for p in place.rglob("*.json")} == {Path(p) / "metadata" for p in places}, (
        "it names all that there is"
    )
    subprocess.run(remove, shell=True, check=True)
    assert not list(place.rglob("*.json"))


def test_a_page_of_html_is_told_by_its_title(tmp_path: Path) -> None:
    class Away(Catalog):
        def answer(self, *_: object) -> Reply:
            return Reply(502, "<html><head><title>502 Bad Gateway</title></head><body><hr>nginx</body></html>")

    file = tmp_path / "away.yaml"
    with serving(Away()) as uri:
        file.write_text(f"spark: {{type: rest, uri: '{uri}'}}\n")
        code, out = typed("--catalog", file)
        assert code == 254 and "502 a page of HTML: 502 Bad Gateway; is the server up behind this address?" in out
        file.write_text(f"spark: {{type: rest, uri: '{uri}', credential: 'a:b'}}\n")
        code, out = typed("--catalog", file)
        assert code == 254 and "502 a page of HTML: 502 Bad Gateway; is the credential right?" in out and "<" not in out


S3_ERROR = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InvalidRequest</Code><Message>No bucket &lt;v1&gt;.</Message></Error>'


@pytest.mark.parametrize("login", ["", ", credential: 'a:b'"], ids=["open", "with a login"])
def test_the_address_of_the_store_or_of_the_wrong_protocol_is_known_by_its_answer(login: str, tmp_path: Path) -> None:
    class Store(Catalog):
        def answer(self, *_: object) -> Reply:
            return Reply(400, S3_ERROR)

    file = tmp_path / "mine.yaml"
    with serving(Store()) as uri:
        file.write_text(f"spark: {{type: rest, uri: '{uri}'{login}}}\n")
        code, out = typed("--catalog", file)
        says = "400, an answer of S3 (InvalidRequest: No bucket <v1>.): this is the store's address, not the catalog's"
        assert code == 254 and says in out and len(out.splitlines()) == 1, out
        file.write_text(f"spark: {{type: rest, uri: '{uri.replace('http:', 'https:')}'{login}}}\n")
        code, out = typed("--catalog", file)
        assert code == 254 and "; it speaks plain HTTP: write http://" in out and len(out.splitlines()) == 1, out


def stored(into: Path) -> dict[str, str]:
    return {a["id"]: a["conclusion"] for a in json.loads((into / "certify.json").read_text())["answers"]}


def test_an_unfinished_certificate_gets_what_it_lacks(own: Path, tmp_path: Path) -> None:
    typed("--catalog", own, "--only", "null-ref", "--into", tmp_path / "into", "--quiet")
    _, out = typed("--catalog", own, "--only", FAST, "--into", tmp_path / "into")
    assert "1 of 4 requirements are there already" in out and "null-ref: pass" not in out
    assert stored(tmp_path / "into").keys() == set(FAST.split(","))


def test_what_is_asked_of_a_finished_certificate_is_asked_anew_and_its_other_answers_stay(tmp_path: Path) -> None:
    own, into, old = tmp_path / "mine.yaml", tmp_path / "into", tmp_path / "into" / "certify.json"
    with serving(server := Forgetful()) as uri:
        own.write_text(f"spark: {{type: rest, uri: '{uri}'}}\n")
        typed("--catalog", own, "--only", FAST, "--into", into, "--quiet")
        before, server.mended = stored(into), True
        words = "--catalog", own, "--only", "txn-same-table-twice", "--into", into
        code, out = typed(*words, "--against", old)
    assert "mine txn-same-table-twice: pass" in out, "it is asked"
    assert before["txn-same-table-twice"] == "fail" and stored(into) == {**before, "txn-same-table-twice": "pass"}
    assert code == 0 and out.count("better  mine") == 1 and "txn-same-table-twice: fail → pass" in out
    assert "mine null-ref" not in out and "null-ref  " not in out, "only what was asked now has a row"
    assert "  others  3 other answers of this folder stay: none fails (certify.html)" in out
    assert 'id="null-ref"' in (into / "certify.html").read_text(), "the page has all"
    for command in (json.loads(old.read_text())["command"], out.partition("  again")[2].splitlines()[0]):
        (only,) = re.findall(r"--only (\S+)", command)
        assert set(only.split(",")) == {*FAST.split(","), "txn-same-table-twice"}, "all that the page has, and no more"


def test_the_command_that_is_printed_asks_again(own: Path, tmp_path: Path) -> None:
    words = "--catalog", own, "--only", FAST, "--store", tmp_path / "store", "--quiet"
    _, out = typed(*words, "--into", tmp_path / "into")
    (again,) = [x.partition("again")[2].strip(" :") for x in out.splitlines() if x.strip().startswith("again")]
    assert "--only" in again and "--into" not in again, "a new folder has no answers"
    assert str(own) in again


def test_what_is_published_has_the_servers_version_and_no_path_of_the_machine(own: Path, tmp_path: Path) -> None:
    own.write_text(own.read_text() + "summary: Lakekeeper 0.13, staging\n")
    into = tmp_path / "into"
    words = "--catalog", own, "--only", "null-ref,statuses", "--store", tmp_path / "store", "--into", into, "--quiet"
    _, out = typed(*words)
    whole = json.loads((into / "certify.json").read_text())
    assert whole["software"] == {"mine": "Lakekeeper 0.13, staging"} and read(into / "certify.json").software
    assert whole["command"] == "icequake certify --catalog mine.yaml --only null-ref,statuses"
    shown = (into / "certify.html").read_text()
    assert "Lakekeeper 0.13, staging" in shown and "--catalog mine.yaml" in shown
    assert "catalog mine (Lakekeeper 0.13, staging): " in " ".join(out.split())
    for file in ("certify.html", "certify.json", "junit.xml", "badge.json"):
        assert str(tmp_path) not in (into / file).read_text(), file


def test_a_folder_of_another_certificate_is_refused_in_one_line(own: Path, tmp_path: Path) -> None:
    typed("--catalog", own, "--only", "null-ref", "--into", tmp_path, "--quiet")
    result = CliRunner().invoke(
        app, ["certify", "--catalog", str(own), "--only", "null-ref", "--repeat", "2", "--into", str(tmp_path)]
    )
    assert isinstance(result.exception, Crash)
    assert explain(result.exception, "icequake certify --help") == BAD_INPUT
    assert not list(tmp_path.glob("icequake-error-*"))


@pytest.mark.parametrize("recorded", [True, False], ids=["its journal says of what", "its certificate alone does"])
def test_a_certificate_takes_on_the_name_of_no_other_version(own: Path, tmp_path: Path, recorded: bool) -> None:
    """Nor of another server: its answers would stand below a name that none of them is of."""
    into, address = tmp_path / "cert", own.read_text()
    own.write_text(address + "summary: MyCat 3.1, staging\n")
    typed("--catalog", own, "--only", FAST, "--into", into, "--quiet")
    if not recorded:
        journal = into / "requirements.jsonl"
        header, *answers = journal.read_text().splitlines(keepends=True)
        before = {k: v for k, v in json.loads(header).items() if k in ("format", "catalogs", "rounds", "icequake")}
        journal.write_text(json.dumps(before) + "\n" + "".join(answers))
    before = stored(into)
    words = "--catalog", own, "--only", "null-ref", "--into", into
    own.write_text(address + "summary: MyCat 3.2, staging\n")
    code, out = typed(*words)
    assert code == 254
    assert (
        f"{into}: its 4 answers are of MyCat 3.1, staging; {own} now says MyCat 3.2, staging. Ask all of it in a new "
        f"folder (--into …), and compare with --against {into / 'certify.json'}"
    ) in out
    if recorded:
        with serving(Keyless()) as uri:
            own.write_text(f"spark: {{type: rest, uri: '{uri}'}}\nsummary: MyCat 3.1, staging\n")
            code, out = typed(*words)
        assert code == 254 and f"; {own} now says {uri}. Ask all of it in a new folder" in out
    assert stored(into) == before
    own.write_text(address + "summary: MyCat 3.1, staging\n")
    assert typed(*words)[0] == 1, "the same build is asked again"


def test_the_folder_of_an_address_with_a_password_does_not_have_the_password(tmp_path: Path) -> None:
    file, into = tmp_path / "mine.yaml", tmp_path / "into"
    with serving(Catalog()) as uri:
        file.write_text(f"spark: {{type: rest, uri: '{uri.replace('://', '://me:not-for-you@')}'}}\n")
        code, out = typed("--catalog", file, "--only", "null-ref", "--into", into, "--quiet")
    assert code == 0, out
    assert "not-for-you" not in out
    for found in into.rglob("*"):
        assert not found.is_file() or "not-for-you" not in found.read_text(), found


def test_a_certificate_is_continued_however_its_catalogs_file_is_typed(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "cert"
    monkeypatch.chdir(own.parent)
    for name in (own.name, f"./{own.name}", own):
        code, out = typed("--catalog", name, "--only", "null-ref", "--into", into, "--quiet")
        assert code == 0, out
    code, out = typed("--catalog", own, "--only", "null-ref", "--into", into, "--quiet", "--repeat", "3")
    assert (
        code == 254
        and "another --repeat (none there, 3 here); to go on with it leave --repeat out, or give another folder"
        in " ".join(out.split())
    )


def test_a_folder_of_another_catalog_is_refused_by_the_names_of_both(own: Path, tmp_path: Path) -> None:
    into, other = tmp_path / "cert", tmp_path / "my32.yaml"
    other.write_text("name: mine\n" + own.read_text())
    typed("--catalog", own, "--only", "null-ref", "--into", into, "--quiet")
    code, out = typed("--catalog", other, "--only", "null-ref", "--into", into, "--quiet")
    assert code == 254
    assert f"{into} holds a certificate of {own}, not of {other}; give another folder with --into" in out


def test_what_changed_since_another_certificate_is_said(own: Path, tmp_path: Path) -> None:
    typed("--catalog", own, "--only", FAST, "--into", tmp_path / "old", "--quiet")
    with serving(Keyless()) as uri:
        own.write_text(f"spark: {{type: rest, uri: '{uri}'}}\n")
        old = tmp_path / "old" / "certify.json"
        code, out = typed("--catalog", own, "--only", FAST, "--into", tmp_path / "new", "--against", old, "--quiet")
    assert code == 0
    assert f"  against {old} (made {json.loads(old.read_text())['made']}): 4 compared, 2 changed\n" in out
    assert (
        "  better   mine txn-same-table-twice: fail → pass" in out and "  changed  mine key-replays: pass → n/a" in out
    )
    assert "null-ref:" not in out


def test_what_could_not_be_asked_is_never_certified(tmp_path: Path) -> None:
    file = tmp_path / "full.yaml"
    with serving(Unable()) as uri:
        file.write_text(f"spark: {{type: rest, uri: '{uri}'}}\n")
        code, out = typed("--catalog", file, "--only", "null-ref", "--into", tmp_path / "into", "--quiet")
    assert code == 2
    assert f"1 of 1 requirements could not be asked; no requirement was asked; 0 of {ALL} asked" in out


def test_a_server_that_is_away_is_asked_nothing(own: Path, tmp_path: Path) -> None:
    """One line before anything is asked, also of the catalogs that are there."""
    file = tmp_path / "away.yaml"
    file.write_text("spark: {type: rest, uri: 'http://127.0.0.1:1'}\n")
    code, out = typed("--catalog", f"{own},{file}", "--into", tmp_path / "into")
    assert code == 254 and not (tmp_path / "into").exists()
    assert out.count("catalog away: http://127.0.0.1:1/v1/config: no answer: connection refused; is it up") == 1
    assert len(out.splitlines()) == 1 and "null-ref" not in out, out


def test_a_wrong_credential_is_said_in_the_servers_words(tmp_path: Path) -> None:
    file = tmp_path / "denied.yaml"
    with serving(Denying()) as uri:
        file.write_text(f"spark: {{type: rest, uri: '{uri}', credential: 'me:not-the-one'}}\n")
        code, out = typed("--catalog", file, "--into", tmp_path / "into")
    assert code == 254 and '400 {"error": "invalid_client"}; is the credential right?' in out
    assert "not-the-one" not in out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--only", "null-reff"], "unknown requirement 'null-reff' (did you mean null-ref?); --list has all"),
        (["--only", "xyzzy"], "unknown requirement 'xyzzy'; --list has all"),
        (["--only", "status"], "did you mean statuses"),
        (["--only", "one winner and nothing"], "did you mean one winner and nothing lost"),
        (["--explain", "nul-ref"], "did you mean null-ref"),
        (["--catalog", "hadoop"], "PyIceberg has no such catalog"),
        (["--catalog", "hive-nolock"], "it is asked as hive; give hive"),
        (["--against", "README.md"], "README.md: is no certify.json; give one that icequake certify wrote"),
        (
            ["--against", "workloads/quick.yaml"],
            "workloads/quick.yaml: this is a workload file, not a certificate; `icequake run ",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_remedy(
    words: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, out = typed(*words)
    assert code == 254 and named in out, out


def test_a_catalog_of_amazon_s_needs_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.certify.find_spec", lambda name: None)
    code, out = typed("--catalog", "glue")
    assert code == 254 and "by boto3, which is not installed; type: " in out


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_can_be_chosen_alone_and_beside_another(group: str) -> None:
    """As the page and the document write it: a comma in a name would end it."""
    mine = [r.id for r in requirements() if r.group == group]
    code, out = typed("--list", "--only", group)
    assert code == 0 and [x.split()[0] for x in out.splitlines()[1:]] == mine != []
    assert out.splitlines()[0] == group
    other = next(g for g in GROUPS if g != group)
    code, out = typed("--list", "--only", f"{group},{other}")
    assert code == 0 and len(out.splitlines()) == 2 + len([r for r in requirements() if r.group in (group, other)])


def test_list_and_explain_ask_nothing() -> None:
    code, out = typed("--list")
    assert code == 0 and [x for x in out.splitlines() if not x.startswith(" ")] == list(GROUPS)
    assert len(out.splitlines()) == len(GROUPS) + len(requirements())
    code, out = typed("--explain", "null-ref")
    assert code == 0 and "l.3712" in out and "loses data" in out
    (null_ref,) = (r for r in requirements() if r.id == "null-ref")
    assert null_ref.asked in " ".join(out.split()) and null_ref.to_do in " ".join(out.split())


def test_a_failure_is_shown_with_how_it_was_asked_and_what_to_do() -> None:
    (requirement,) = (r for r in requirements() if r.id == "null-ref")
    for tries, more in ((1, ""), (3, " All of this 3 times.")):
        failure = replace(answer(Level.MUST, Severity.LOSS, Conclusion.FAIL), id=requirement.id, tries=tries)
        text = repr(page.of(Certificate({"c": ""}, [requirement.question], [failure], "", "", "")).sections[1])
        assert repr(("how it was asked", requirement.asked + more)) in text
        assert repr(("what to do", requirement.to_do)) in text


@pytest.mark.parametrize(
    ("effects", "says"),
    [
        ([Severity.BREAKS, Severity.LOSS, Severity.LOSS], "3 of 4 requirements fail, 2 of them lose data; "),
        ([Severity.BREAKS, Severity.LOSS], "2 of 3 requirements fail, 1 of them loses data; "),
        ([Severity.LOSS, Severity.LOSS], "2 of 3 requirements fail, all of them lose data; "),
        ([Severity.BREAKS], "1 of 2 requirements fails and breaks writers; "),
        ([Severity.CONFUSES, Severity.CONFUSES], "2 of 3 requirements fail, all of them confuse; "),
        ([], "none of 1 requirements fails; "),
    ],
)
def test_the_headline_says_how_many_do_the_worst(effects: list[Severity], says: str) -> None:
    found = [answer(Level.MUST, e, Conclusion.FAIL) for e in effects] + [
        answer(Level.MUST, Severity.LOSS, Conclusion.PASS)
    ]
    numbered = [replace(a, id=str(n)) for n, a in enumerate(found)]
    assert Certificate({"c": ""}, [], numbered, "", "", "").headline("c").startswith(says)


def test_a_pass_says_how_many_of_the_commits_that_were_sent_were_acknowledged() -> None:
    def sent(number: int, status: int) -> Exchange:
        change = {"updates": [{"snapshot": {"snapshot-id": number, "parent-snapshot-id": number - 1}}]}
        return Exchange("append:0", "POST", "/t", change, status)

    end = Exchange("end", "GET", "/t", None, 200, body={"metadata": {"current-snapshot-id": 1}})
    lost = keeps_acknowledged(Exchanges([sent(1, 200), sent(2, 200), end]), "append")
    assert lost.actual == "1 of 2 acknowledged snapshots are not in main's history: 2"
    seen = Exchanges([sent(1, 200), sent(2, 409), sent(3, 409), end])
    assert keeps_acknowledged(seen, "append") == passed("1 of 3 commits were acknowledged, and are in the table")


def test_a_failure_of_which_a_finding_tells_has_its_words_on_the_page_and_names_it_when_it_is_explained() -> None:
    text = (ROOT / "docs" / "certify.md").read_text()
    for id, finding in page.FINDINGS.items():
        assert finding.file.removeprefix("docs/") in text
        summary = (ROOT / finding.file).read_text().partition("**Summary.** ")[2]
        assert " ".join(summary.replace("`", "").split()).startswith(finding.text)
        (requirement,) = (r for r in requirements() if r.id == id)
        failure = replace(answer(Level.MUST, Severity.LOSS, Conclusion.FAIL), id=id)
        whole = Certificate({"c": ""}, [requirement.question], [failure], "", "", "")
        assert finding.text in repr(page.of(whole).sections[1]).replace("\\'", "'")
        assert repr(("until it is mended", finding.until)) in repr(page.of(whole).sections[1]) or not finding.until
        assert finding.file in typed("--explain", id)[1]
        assert "docs/" not in repr(page.of(whole)), "who reads it has no clone"
    remedy = (ROOT / "workloads" / "scenarios" / "rest-lost-transaction.yaml").read_text().partition("\nremedy: ")[2]
    assert remedy.startswith(page.FINDINGS["txn-one-table"].until.removesuffix(".")), "as the scenario says it"
    assert page.FINDINGS.keys() == {
        "checked-at-the-swap",
        "expiry-spares-refs",
        "txn-one-table",
        "unknown-deletes-nothing",
        "unknown-is-5xx",
    }
    assert "docs/findings" not in typed("--explain", "null-ref")[1]


@pytest.mark.parametrize("id", LAST_READS)
def test_what_was_not_read_is_no_loss(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "LOAD_AGAIN_S", 0.0)
    (requirement,) = (r for r in requirements() if r.id == id)
    with described(Mute(id)) as server, pytest.raises(SetUpError, match=r"nobody knows .* was not read: 503"):
        asked_once(requirement, server, rounds=2)


def test_one_failure_of_several_tries_counts() -> None:
    requirement = requirements()[0]
    found = concluded("c", requirement, [passed(), failed("one", "two"), passed()])
    assert (found.conclusion, found.alike, found.tries, found.actual) == (Conclusion.FAIL, 1, 3, "two")
    assert concluded("c", requirement, [passed(), Judgement(Conclusion.SOFT)]).conclusion is Conclusion.SOFT


def answer(level: Level, effect: Severity, conclusion: Conclusion) -> RequirementResult:
    return RequirementResult("c", f"{level}-{effect}-{conclusion}", level, effect, conclusion, 1, 1)


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([answer(Level.MUST, Severity.CONFUSES, Conclusion.FAIL)], 1),
        ([answer(Level.CLIENTS, Severity.LOSS, Conclusion.FAIL)], 1),
        ([answer(Level.CLIENTS, Severity.BREAKS, Conclusion.FAIL)], 0),
        ([answer(Level.MUST, Severity.LOSS, Conclusion.ERROR)], 2),
        ([answer(Level.MUST, Severity.LOSS, Conclusion.PASS), answer(Level.SHOULD, Severity.LOSS, Conclusion.SOFT)], 0),
    ],
)
def test_the_exit_code_is_that_of_what_counts(answers: list[RequirementResult], code: int) -> None:
    assert Certificate({"c": ""}, [], answers, "", "", "").exit_code == code


def test_what_is_stored_is_read_again(tmp_path: Path) -> None:
    wire = (Exchange("a", "GET", "/v1/x", None, 200, {"etag": "1"}, {"metadata": {}}),)
    made = concluded("c", requirements()[0], [failed("one", "two", *wire)], 1.5)
    whole = Certificate({"c": "http://x"}, [r.question for r in requirements()], [made], "now", "1", "icequake certify")
    render.write(page.of(whole), tmp_path)
    assert read(tmp_path / "certify.json") == whole
    assert compared("old.json", whole, whole) == ["against old.json (made now): 1 compared, none changed"]


def test_what_got_worse_stands_first_and_what_was_not_compared_is_counted() -> None:
    level, breaks, loses = Level.MUST, Severity.BREAKS, Severity.LOSS

    def certificate(*states: tuple[str, Severity, Conclusion]) -> Certificate:
        answers = [RequirementResult("my", id, level, effect, conclusion, 1, 1) for id, effect, conclusion in states]
        return Certificate({"my": ""}, [], answers, "2026-01-01", "", "", {"my": "MyCat 3.1"})

    good, bad, none = Conclusion.PASS, Conclusion.FAIL, Conclusion.NOT_APPLICABLE
    old = certificate(
        ("a", breaks, good),
        ("b", breaks, bad),
        ("c", breaks, bad),
        ("d", loses, bad),
        ("e", loses, bad),
        ("f", loses, good),
    )
    now = certificate(("d", loses, good), ("e", loses, none), ("c", loses, bad), ("a", breaks, bad), ("g", loses, good))
    assert compared("old.json", old, now) == [
        "against old.json (MyCat 3.1, made 2026-01-01): 4 compared, 4 changed; 2 not asked here; 1 not asked there",
        "worse    my c: fail (breaks writers) → fail (loses data)",
        "worse    my a: pass → fail (breaks writers)",
        "better   my d: fail → pass",
        "changed  my e: fail → n/a",
    ]
    (only,) = compared("old.json", old, certificate(("a", breaks, bad)))[1:]
    assert only == "worse  my a: pass → fail (breaks writers)"


def test_a_level_of_which_nothing_was_decided_is_not_counted() -> None:
    found = [answer(Level.CLIENTS, Severity.LOSS, Conclusion.PASS), answer(Level.MUST, Severity.LOSS, Conclusion.ERROR)]
    assert Certificate({"c": ""}, [], found, "", "", "").counts("c") == "1/1 clients · 1 error · 0 n/a"


def test_the_document_lists_every_requirement() -> None:
    text = (ROOT / "docs" / "certify.md").read_text()
    assert f"begin -->\n\n{document()}\n<!-- requirements: end" in text, "python -m harness.certify.requirements"
    assert f"begin -->\n\n{how()}\n<!-- how: end" in text, "python -m harness.certify.requirements --how"
    assert f"begin -->\n\n{mutants.document()}\n<!-- mutants: end" in text, "python -m tests.harness.certify.mutants"
    assert f"`13 of {ALL} asked`" in text and f"Of the {ALL} requirements 26 are asked" in text.replace("\n", " ")
    assert f"and {len(mutants.MUTANTS)} that break one each" in text
    assert f"asks a catalog {ALL} requirements" in (ROOT / "README.md").read_text()
