"""Secrets are taken out of texts and of whole folders, and nothing else is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compose.redaction import HIDDEN, Redaction, SecretsLeft, secrets_of, too_short
from tests.support.files import disk_of, files_of_at_most, fill
from tests.support.planted import ORDINARY, PLACES, SECRETS, TEXTS, forms_in, planted

SECRET = "wJalrXUtn/K7MD+bPxRfi@CY:EX%AMPLE=="


# --- texts ------------------------------------------------------------------------------------------------------------


@given(SECRETS)
def test_a_known_secret_is_gone_from_every_place(secret: str) -> None:
    hide = Redaction([secret])
    for written, text in planted(secret):
        hidden = hide.text(text)
        assert secret not in hidden and written not in hidden, text
        assert HIDDEN in hidden


@given(SECRETS, st.lists(st.sampled_from(range(len(PLACES))), min_size=1, max_size=5))
def test_a_known_secret_is_gone_when_several_places_share_a_line(secret: str, which: list[int]) -> None:
    places = [planted(secret)[n] for n in which]
    hidden = Redaction([secret]).text(" ".join(text for _, text in places))
    assert secret not in hidden and not [written for written, _ in places if written in hidden]


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_line_stays_as_it_is(text: str) -> None:
    assert Redaction(()).text(text) == text


@given(TEXTS, SECRETS)
def test_ordinary_text_stays_as_it_is(text: str, secret: str) -> None:
    assume(secret not in text)
    assert Redaction([secret]).text(text) == text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("x://app:a/b+c=@h/d", f"x://app:{HIDDEN}@h/d"),
        ("x://app:a/b@c@h/d", f"x://app:{HIDDEN}@h/d"),
        ('{"uri":"x://app:a/b@h","mail":"me@h"}', f'{{"uri":"x://app:{HIDDEN}@h","mail":"me@h"}}'),
        ("jdbc:oracle:thin:scott/ti:ger@//h:1521/d", f"jdbc:oracle:thin:scott/{HIDDEN}@//h:1521/d"),
        ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: Basic {HIDDEN}"),
        ("authorization=[Bearer abc.1/x+y==]", f"authorization=[Bearer {HIDDEN}]"),
        ("sent Basic dXNlcjpwYXNzdzByZA== twice", f"sent Basic {HIDDEN} twice"),
        ("sent Bearer abcdefghijklmnop.1 twice", f"sent Bearer {HIDDEN} twice"),
        ("AccountName=a;AccountKey=a/b+c==;Suffix=x", f"AccountName=a;AccountKey={HIDDEN};Suffix=x"),
        ("with sig=abcdefgh%2Fijkl%3D, then", f"with sig={HIDDEN}, then"),
        ("SharedAccessSignature=sr=x&sig=a%2Fb&se=1", f"SharedAccessSignature=sr=x&sig={HIDDEN}&se=1"),
        (
            "h/o?X-Amz-Credential=AKIA%2Fs3&X-Amz-Security-Token=a/b&n=1",
            f"h/o?X-Amz-Credential={HIDDEN}&X-Amz-Security-Token={HIDDEN}&n=1",
        ),
        ("X-Amz-Security-Token: a/b+c==", f"X-Amz-Security-Token: {HIDDEN}"),
        ("grant_type=x&client_secret=a%2Fb&scope=c", f"grant_type=x&client_secret={HIDDEN}&scope=c"),
        ('{"access_token": "a b", "x": 1}', f'{{"access_token": "{HIDDEN}", "x": 1}}'),
        (r'"{\"client_secret\":\"a/b\"}"', rf'"{{\"client_secret\":\"{HIDDEN}\"}}"'),
        ("password='a b' user=c", f"password='{HIDDEN}' user=c"),
        ("jdbc:sqlserver://h;password={a;b};user=c", f"jdbc:sqlserver://h;password={{{HIDDEN}}};user=c"),
        ("ALTER USER a PASSWORD 'b''c' x", f"ALTER USER a PASSWORD '{HIDDEN}' x"),
        ("it is eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2ln here", f"it is {HIDDEN} here"),
        ("-----BEGIN PRIVATE KEY-----\nMII/+=\n-----END", f"-----BEGIN PRIVATE KEY-----{HIDDEN}-----END"),
    ],
)
def test_what_is_a_secret_by_the_text_around_it_is_hidden_though_it_is_not_known(text: str, hidden: str) -> None:
    assert Redaction(()).text(text) == hidden
    assert Redaction(()).text(hidden) == hidden


@pytest.mark.parametrize(
    ("properties", "secret"),
    [
        ({"uri": "jdbc:postgresql://app:a/b+c=defg@db/lake"}, "a/b+c=defg"),
        ({"uri": "postgresql://app:12/b+c=defg@db/lake"}, "12/b+c=defg"),
        ({"credential": "app:a/b+c=defg"}, "a/b+c=defg"),
        ({"header.Authorization": "Basic YXBwOmEvYitjPWRlZmc="}, "a/b+c=defg"),
        ({"header.Authorization": "Bearer a/b+c=defg"}, "a/b+c=defg"),
        ({"connection": "AccountName=a;AccountKey=a/b+c=defg;x=y"}, "a/b+c=defg"),
    ],
)
def test_the_secret_within_a_value_is_known(properties: dict[str, str], secret: str) -> None:
    assert secret in secrets_of(properties)
    assert Redaction(secrets_of(properties)).text(f"at {secret} end") == f"at {HIDDEN} end"


@pytest.mark.parametrize("word", ["e", "ber", "ice", "iceberg"])
def test_a_short_secret_is_hidden_where_it_stands_alone_or_behind_its_key_and_never_in_a_word(word: str) -> None:
    hide = Redaction([word])
    inside = f"pyicebergs x{word} {word}_y {word}9 wir{word}st"
    assert hide.text(inside) == inside
    for text in ("{}", "is ({}) so", "a {}, b", "'{}'", "auth={} x", "api-key: {}."):
        assert hide.text(text.format(word)) == text.format(HIDDEN)
    assert hide.text(f"jdbc.password%3D{word}&x") == f"jdbc.password%3D{HIDDEN}&x"
    assert hide.text(rf"\"s3.secret\":\n{word}") == rf"\"s3.secret\":\n{HIDDEN}"


def test_the_key_of_a_secret_that_is_too_short_to_be_searched_for_is_told() -> None:
    told = too_short(secrets_of({"credential": "app:s3cret", "token": "12345678", "uri": "x://a:b@h"}))
    assert told is not None and told.startswith("credential, uri: ") and "use a longer one" in told
    assert too_short(secrets_of({"token": "12345678"})) is None


def test_an_error_and_what_it_came_from_lose_their_secrets() -> None:
    try:
        try:
            inner = OSError(5, f"no {SECRET}", f"file of {SECRET}")
            inner.add_note(f"with {SECRET}")
            raise inner
        except OSError as e:
            raise RuntimeError(f"at {SECRET}", 5) from e
    except RuntimeError as e:
        Redaction([SECRET]).error(e)
        assert e.args == (f"at {HIDDEN}", 5) and str(e.__cause__) == f"[Errno 5] no {HIDDEN}: 'file of {HIDDEN}'"
        assert e.__cause__ is not None and e.__cause__.__notes__ == [f"with {HIDDEN}"]


# --- folders ----------------------------------------------------------------------------------------------------------


def a_folder(place: Path) -> Path:
    """A folder of logs with the secret in every place, some of it in folders below, next to what is no text."""
    for n, (_, text) in enumerate(planted(SECRET)):
        path = place / ("stack" if n % 2 else "writers/w0") / f"{n}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\x00 first\n" + text.encode() + b"\nlast")
    (place / "all.log").write_text("\n".join(text for _, text in planted(SECRET)))
    (place / "fine.log").write_text("fine")
    (place / "link").symlink_to(place / "gone")
    os.mkfifo(place / "fifo")
    return place


def found(place: Path) -> set[Path]:
    """The files below a folder in which the secret stands in any form."""
    return {p for p in place.rglob("*") if p.is_file() and forms_in(SECRET, p.read_bytes())}


def test_a_secret_in_forty_places_is_found_nowhere_in_a_folder(tmp_path: Path) -> None:
    assert len(PLACES) >= 40 and len(found(a_folder(tmp_path))) == len(PLACES) + 1
    before = (tmp_path / "fine.log").stat()
    assert Redaction([SECRET]).folder(tmp_path) == [] and not found(tmp_path)
    assert (tmp_path / "fine.log").stat().st_ino == before.st_ino
    one = (tmp_path / "stack" / "1.log").read_bytes()
    assert one.startswith(b"\xff\x00 first\n") and one.endswith(b"\nlast") and HIDDEN.encode() in one


def test_a_secret_in_forty_places_is_found_nowhere_in_a_folder_on_a_full_disk(tmp_path: Path) -> None:
    with disk_of("6m", tmp_path / "disk") as disk:
        a_folder(disk / "logs")
        sizes = {p: p.stat().st_size for p in disk.rglob("*.log")}
        fill(disk)
        assert Redaction([SECRET]).folder(disk / "logs") == []
        assert not found(disk) and {p: p.stat().st_size for p in disk.rglob("*.log")} == sizes
        assert b"****" in (disk / "logs" / "stack" / "1.log").read_bytes()


def test_files_that_can_be_neither_cleaned_nor_removed_are_named_and_the_others_are_clean(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text(SECRET)
    with disk_of("1m", tmp_path / "a") as disk:
        (disk / "w0.log").write_text(f"at {SECRET}")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, timeout=60)
        with pytest.raises(SecretsLeft) as e:
            Redaction([SECRET]).folder(tmp_path)
        assert e.value.files == (disk / "w0.log",) and str(disk / "w0.log") in str(e.value)
        assert "may hold a secret" in str(e.value) and "remove it yourself" in str(e.value)
    assert (tmp_path / "b.log").read_text() == HIDDEN


def test_a_redacted_file_keeps_its_permissions(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("password=hunter22 and more")
    log.chmod(0o604)
    Redaction(["hunter22"]).folder(tmp_path)
    assert log.read_text() == f"password={HIDDEN} and more"
    assert log.stat().st_mode & 0o777 == 0o604


def test_a_file_that_can_be_neither_replaced_nor_overwritten_is_removed(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("hunter22 " * 10_000)
    with files_of_at_most(5_000):
        assert Redaction(["hunter22"]).folder(tmp_path) == [log]
    assert not os.listdir(tmp_path)
