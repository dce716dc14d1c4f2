"""A page of HTML, or an error of S3, in place of an answer: what a proxy before a server, or a server of another kind, says in it."""

from __future__ import annotations

import html
import re

MOST = 120
"""Characters that are told of a page that has no title: its first sentence."""
_PAGE = re.compile(r"<(?:!doctype|html|head|body)\b.*?(?:</html\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>?", re.IGNORECASE | re.DOTALL)

_S3_ERROR = re.compile(r"<Error\b[^>]*>\s*<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")


def s3_error(text: str) -> str | None:
    """``AccessDenied: Access Denied.`` of an error of S3; None: it is none."""
    found = _S3_ERROR.search(text)
    return None if found is None else " ".join(html.unescape(": ".join(found.groups())).split())


def readable(text: str) -> str:
    """The text with its title, or its first words, in place of a page of HTML; a text without one as it is."""
    if (page := _PAGE.search(text)) is None:
        return text
    title = _TITLE.search(page[0])
    words = " ".join(html.unescape(title[1] if title else _MARKUP.sub(" ", page[0])).split())
    said = f"a page of HTML: {words[:MOST]}".removesuffix(": ").rstrip()
    return text[: page.start()] + said + text[page.end() :]
