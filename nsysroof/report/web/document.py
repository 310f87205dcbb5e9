"""The shell of an HTML page: one file that loads nothing and may run nothing but its own script."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from nsysroof.report.web.markup import Markup, element

_ASSETS = files("nsysroof.report") / "assets"


def document(title: str, *body: str) -> str:
    """Return a whole page.

    Its policy allows the style and the script inside it, known by their hashes, and nothing else.
    """
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    content = element("body", *body, element("script", Markup(script)))
    return f"<!doctype html>\n{element('html', head, content, lang='en')}\n"


@cache
def _asset(file: str) -> str:
    return (_ASSETS / file).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"
