"""Flink comes out of a package's archive only as its lock says, and where it cannot, one line says why and what to do."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from compose.install import doctor, flink, jars
from compose.install.cache import SetupError
from compose.install.flink import Lock, Member
from compose.install.progress import ProgressLines


def member(name: str, content: bytes) -> Member:
    return Member(name, len(content), hashlib.sha256(content).hexdigest())


ONE, TWO = b"the first jar", b"the second jar"
SMALL = Lock("apache-flink-libraries", "9.9", member("x==9.9", b""), (member("one.jar", ONE), member("two.jar", TWO)))


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_the_lock_names_a_package_and_its_jars() -> None:
    lock = flink.read_lock()
    assert (lock.package, lock.archive.name) == ("apache-flink-libraries", f"apache-flink-libraries=={lock.version}")
    names = [jar.name for jar in lock.jars]
    assert f"flink-dist-{lock.version}.jar" in names and len(names) == len(set(names))


def test_iceberg_s_runtime_is_the_one_for_this_flink() -> None:
    (runtime,) = [
        j for j in jars.of([flink.JAR_CONF], jars.read_lock()) if j.artifact.startswith("iceberg-flink-runtime")
    ]
    assert runtime.artifact == f"iceberg-flink-runtime-{flink.read_lock().version.rpartition('.')[0]}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a==1 12 xyz\n", ":1: expected 'name bytes sha256'"),
        (f"a 12 {'0' * 64}\nb 1 {'0' * 64}\n", "expected a line 'package==version"),
        ("# nothing\n", "expected a line 'package==version"),
        (f"a==1 12 {'0' * 64}\n", "then lines of jars"),
    ],
)
def test_a_damaged_lock_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "flink.lock").write_text(text)
    with pytest.raises(SetupError) as error:
        flink.read_lock(tmp_path / "flink.lock")
    assert f"{tmp_path / 'flink.lock'}" in str(error.value) and says in str(error.value)


def test_only_the_named_jars_are_kept(tmp_path: Path) -> None:
    files = {
        "x-9.9/deps/lib/one.jar": ONE,
        "x-9.9/deps/opt/two.jar": b"another file of that name",
        "x-9.9/deps/lib/two.jar": TWO,
        "x-9.9/deps/lib/other.jar": b"not wanted",
        "x-9.9/setup.py": b"",
    }
    kept = tmp_path / "kept"
    kept.mkdir()
    flink._unpack(archive(tmp_path / "x.tar.gz", files), SMALL, kept)
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == {"one.jar": ONE, "two.jar": TWO}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"x/deps/lib/one.jar": ONE, "x/deps/lib/two.jar": b"changed"},
            "two.jar of apache-flink-libraries is not the file",
        ),
        ({"x/deps/lib/one.jar": ONE}, "apache-flink-libraries==9.9 lacks two.jar"),
    ],
)
def test_an_archive_with_other_jars_is_refused(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    with pytest.raises(SetupError, match=says):
        flink._unpack(archive(tmp_path / "x.tar.gz", files), SMALL, tmp_path)


def test_without_the_package_one_line_says_what_is_needed_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    folder = tmp_path / "flink"
    with pytest.raises(SetupError) as error:
        flink._fetch(flink.read_lock(), folder, ProgressLines(io.StringIO()))
    message = str(error.value)
    assert message.startswith("cannot download apache-flink-libraries==") and "\n" not in message
    assert "which Flink writers need" in message and message.endswith("then run the same command again")
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_differs_is_refused_as_such() -> None:
    said = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    apache-flink-libraries"
    assert "is not the file that compose/install/flink.lock names" in flink._reason(flink.read_lock(), said)


def test_the_doctor_says_how_to_get_it_and_finds_a_damaged_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {f.name: f for f in doctor.engines(tmp_path)}["engine: flink"]
    assert (found.state, found.required) == ("missing", False)
    assert found.remedy == "icequake setup --engine flink"

    monkeypatch.setattr(flink, "read_lock", lambda: SMALL)
    folder = SMALL.folder(tmp_path)
    folder.mkdir()
    (folder / "one.jar").write_bytes(ONE)
    (folder / "two.jar").write_bytes(b"something!")
    assert folder / "two.jar" in flink.damaged(tmp_path) and folder / "one.jar" not in flink.damaged(tmp_path)
