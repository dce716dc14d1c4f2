"""What is kept of answers, and which of them are asked for again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from checkers.certificate import Exchange
from harness.certify import kit
from harness.certify.kit import Kit, KitTable, ServerDescription
from harness.certify.rest import HIDDEN, without_credentials


def test_keys_of_the_store_are_in_no_certificate() -> None:
    secrets = {"s3.secret-access-key": "of the store", "s3.session-token-expires-at-ms": "17"}
    answer = {
        "metadata": {"properties": {"p": "1"}, "snapshots": [{"snapshot-id": 1}]},
        "config": {"token": "of the table"},
        "storage-credentials": [{"prefix": "s3://w", "config": secrets}],
    }
    shown = without_credentials(answer)
    assert shown["metadata"] == answer["metadata"] and shown["config"] == {"token": HIDDEN}
    (given,) = shown["storage-credentials"]
    assert given == {
        "prefix": "s3://w",
        "config": {"s3.secret-access-key": HIDDEN, "s3.session-token-expires-at-ms": "17"},
    }
    assert "of the" not in str(shown) and without_credentials(None) is None


@dataclass
class Answering(ServerDescription):
    """Answers with these statuses, one after the other."""

    statuses: list[int] = field(default_factory=list)

    def client(self, heard: Callable[[Exchange], None]) -> Callable[..., Exchange]:
        def send(label: str, method: str, path: str, *_: object, **__: object) -> Exchange:
            found = Exchange(label, method, path, None, self.statuses.pop(0))
            heard(found)
            return found

        return send


@pytest.mark.parametrize(
    ("statuses", "seen", "left"),
    [
        ([200, 404], 200, 1),
        ([503, 0, 200, 404], 200, 1),
        ([429, 404, 200], 404, 1),
        ([500, 200], 500, 1),
        ([503, 503, 503, 200], 503, 1),
    ],
)
def test_a_load_that_says_nothing_of_the_table_is_asked_for_again(
    statuses: list[int], seen: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "LOAD_AGAIN_S", 0.0)
    server = Answering("http://mine", statuses=statuses)
    asking = Kit(server, "x")
    KitTable(asking, "n", "t", {}).load("end")
    assert asking.seen["end"].status == seen and len(statuses) == left
