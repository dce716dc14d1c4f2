"""A page of HTML is told in its own words."""

from __future__ import annotations

import pytest

from nemesis.wires.errorpage import readable


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"error": "invalid_client"}', '{"error": "invalid_client"}'),
        ("a < b and b > c", "a < b and b > c"),
        (
            "<html>\r\n<head><title>502 Bad &amp; Gateway</title></head><body>nginx</body></html>",
            "a page of HTML: 502 Bad & Gateway",
        ),
        ("<!DOCTYPE html><style>p {x: y}</style><p>Not<br>here", "a page of HTML: Not here"),
        (
            "RESTError 404: payload: <html><h1>No</h1></html>, errors: 1",
            "RESTError 404: payload: a page of HTML: No, errors: 1",
        ),
        (f"<body>{'long ' * 100}", f"a page of HTML: {'long ' * 23}long"),
        ("<html></html>", "a page of HTML"),
    ],
)
def test_a_page_is_told_by_its_title_or_its_first_words(text: str, told: str) -> None:
    assert readable(text) == told
