"""Forty places in which a secret shows up in logs and messages, and ordinary text that has none."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st

Place = Callable[[str], str]


def _escaped(secret: str) -> str:
    """As ``java.util.Properties`` writes it."""
    return "".join(f"\\{c}" if c in ":=#! \\" else c for c in secret)


def _basic(user: str, secret: str) -> str:
    return base64.b64encode(f"{user}:{secret}".encode()).decode()


def _lower(secret: str) -> str:
    return "".join(c if c.isalnum() else "".join(f"%{b:02x}" for b in c.encode()) for c in secret)


def _doubled(secret: str) -> str:
    return secret.replace("'", "''")


PLACES: tuple[tuple[str, Place], ...] = (
    # addresses
    ("postgresql://app:{}@db:5432/lake", str),
    ("jdbc:postgresql://app:{}@db:5432/lake?ssl=true", lambda s: quote(s, safe="")),
    ("connecting to redis://:{}@cache", quote),
    ("jdbc:postgresql://db:5432/lake?user=app&password={}", str),
    ("jdbc:postgresql://db:5432/lake?password={}&user=app", lambda s: quote(s, safe="")),
    ("jdbc:sqlserver://db:1433;user=app;password={};encrypt=true", str),
    ("jdbc:sqlserver://db:1433;user=app;password={{{}}};encrypt=true", str),
    ("jdbc:oracle:thin:app/{}@//db:1521/lake", str),
    ("GET /proxied?to=http%3A%2F%2Fapp%3A{}%40db HTTP/1.1", lambda s: quote(quote(s, safe=""), safe="")),
    # properties
    ("s3.secret-access-key={}", str),
    ("  s3.secret-access-key: {}", str),
    ("jdbc.password={}", _escaped),
    ("properties {{uri=http://rest:8181, token={}, cache-enabled=true}}", str),
    ('{{"token": {}, "cache": true}}', json.dumps),
    ('{{"body": {}}}', lambda s: json.dumps(json.dumps({"client_secret": s}))),
    ('{{"token":"{}"}}', lambda s: json.dumps(s)[1:-1].replace("/", "\\/")),
    ('{{"token":"{}"}}', lambda s: json.dumps(s)[1:-1].replace("=", "\\u003d").replace("&", "\\u0026")),
    ("<property><name>fs.s3a.secret.key</name><value>{}</value></property>", html.escape),
    # environment and command lines
    ("AWS_SECRET_ACCESS_KEY={}", str),
    ("environ({})", lambda s: repr({"LAKE_TOKEN": s, "HOME": "/root"})),
    ("java -Dfs.s3a.secret.key={} -cp a.jar Main", str),
    ("psql --password {} lake", str),
    ("curl -u app:{} http://rest", str),
    # SQL
    ("SET spark.sql.catalog.c.credential=app:{}", str),
    ("ALTER USER app PASSWORD '{}'", _doubled),
    ("CREATE USER app IDENTIFIED BY '{}'", _doubled),
    ("INSERT INTO keys VALUES ('app', '{}')", _doubled),
    # exceptions
    ("java.lang.IllegalArgumentException: Illegal character in authority at index 7: {}", str),
    ('org.postgresql.util.PSQLException: FATAL: "{}" is not the password of app', str),
    ("ValueError({})", repr),
    ("\tat Client.<init>(Client.java:12) with [{}]", str),
    # what a proxy or a client logs of requests
    ("Authorization: Bearer {}", str),
    ("authorization: Basic {}", lambda s: _basic("a", s)),
    ("Authorization: Basic {}", lambda s: _basic("ab", s)),
    ("headers [Authorization=[Basic {}]]", lambda s: _basic("abc", s)),
    ("grant_type=client_credentials&client_id=app&client_secret={}&scope=catalog", quote_plus),
    ("x-amz-security-token: {}", str),
    ("GET /b/o?X-Amz-Credential=AKIA%2F20260101%2Fs3&X-Amz-Security-Token={}&n=1", lambda s: quote(s, safe="")),
    ("DefaultEndpointsProtocol=https;AccountName=lake;AccountKey={};EndpointSuffix=core", str),
    ("https://lake.blob/c/o?sv=2024-01-01&se=2026-01-01&sig={}&sp=r", _lower),
    ("the wire has {}", lambda s: base64.urlsafe_b64encode(s.encode()).decode()),
)
"""The text, with ``{}`` for the secret, and how the secret is written there."""


def planted(secret: str) -> list[tuple[str, str]]:
    """For each place the secret as it is written there, and the whole text."""
    return [(write(secret), text.format(write(secret))) for text, write in PLACES]


def forms_in(secret: str, content: bytes) -> list[str]:
    """The forms in which the secret is in a content."""
    return [form for form in {secret, *(written for written, _ in planted(secret))} if form.encode() in content]


SECRETS = st.text(st.sampled_from("abcxyzABCXYZ0123456789/+=@:%&;~!$#?'\"\\<>é "), min_size=8, max_size=40).filter(
    lambda s: s == s.strip()
)

ORDINARY = (
    "http://h:9000/bucket/user@example.com",
    "http://h:9000/bucket of me@h, key=5, id=7",
    "https://rest.example.com:8181/v1/config?warehouse=s3://b/w&prefix=a@b",
    "jdbc:postgresql://db:5432/lake?user=app&ssl=true",
    "jdbc:sqlserver://db:1433;user=me@home;encrypt=true",
    "spark://a:7077,b:7077 of me@h",
    "http://[::1]:8080/path@v1",
    "hdfs://name:8020/a@b/c",
    '{"uri":"http://h:8181","mail":"me@h.org"}',
    "s3://bucket/iq_12/t/metadata/00001-ab.metadata.json",
    r"C:\Users\me\AppData\icequake-1\plan.yaml",
    r"file://C:\lake\a@b.txt",
    "file:///C:/lake/a@b.txt",
    "at 12:30@office, or 08:15:00.123",
    "mailto:me@example.com, me+lake@example.org",
    "password authentication failed for user 'app'",
    "mismatched token 'FROM' expecting <EOF>",
    "the token expired; get a new credential",
    "no secret is known; the password must not be empty",
    "WWW-Authenticate: Bearer realm=x",
    "Basic authentication is required, or a Bearer token",
    "Authorization: Basic authentication failed",
    "token-refresh-enabled=true, credential=null",
    "grant_type=client_credentials&scope=catalog",
    "x-amz-request-id: 17E2F0A9, x-amz-date: 20260101T000000Z",
    "signature=(int, long) of method sig=f",
    "s3.access-key-id=admin",
    "primary key (id), sort key: ts",
    "[2026-01-01 00:00:00,123] INFO org.apache.iceberg.BaseMetastoreCatalog - Table loaded: c.ns.t",
    "ab1f/+c0de+/=",
    "a=b&c=d;e=f",
)
"""Text in which nothing is a secret."""

TEXTS = st.lists(
    st.one_of(st.sampled_from(ORDINARY), st.text(st.characters(codec="utf-8"), max_size=12)), max_size=6
).map("\n".join)
