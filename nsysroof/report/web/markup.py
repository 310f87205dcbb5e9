"""HTML written element by element, so that text is escaped unless it is known to be markup."""

from __future__ import annotations

from html import escape

from nsysroof.report.characters import brief_name, printable

_VOID = frozenset({"br", "input", "link", "meta", "wbr"})
_BRIEF = 60  # characters of a name that a table shows


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Attribute = str | int | float | bool | None


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """Return an element; text inside is escaped, ``Markup`` is not.

    Args:
        tag: Its name.
        children: What stands in it.
        attributes: By name, with ``_`` for ``-`` and a ``_`` behind a keyword of Python; None and
            False leave one out, True gives it no value.

    >>> element("td", "a < b", class_="n", data_v=1.5)
    '<td class="n" data-v="1.5">a &lt; b</td>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: str) -> Markup:
    """Return markup and escaped text one after another.

    >>> join("a & b", element("br"))
    'a &amp; b<br>'
    """
    return Markup("".join(c if isinstance(c, Markup) else inert(c) for c in children))


def inert(text: str) -> str:
    r"""Return text that means nothing to a browser: no markup, no controls, no marks of direction.

    >>> inert("</script>\u202e\x00")
    '&lt;/script&gt;'
    """
    return escape(printable(text), quote=True)


def name(text: str, width: int = _BRIEF) -> Markup:
    """Return a kernel's name, shortened, with the whole of it as a tooltip.

    Its direction is its own, so that letters from right to left move nothing around them.
    """
    brief = brief_name(printable(text), width)
    whole = text if brief != text else None
    return element("bdi", brief, class_="name", title=whole)


def role(text: str) -> Markup:
    """Return a role, which may break between the operators that one kernel computes.

    >>> role("mlp.residual+attn.norm")
    '<bdi class="name">mlp.residual+<wbr>attn.norm</bdi>'
    """
    first, *others = text.split("+")
    return element(
        "bdi", first, *(join("+", element("wbr"), other) for other in others), class_="name"
    )


def whole_name(text: str) -> Markup:
    """Return a kernel's name in full; it may break anywhere."""
    return element("bdi", text, class_="name whole")


def number(value: float, digits: int = 2) -> str:
    """Return a coordinate for an SVG attribute.

    >>> number(3.10), number(12), number(0.004)
    ('3.1', '12', '0')
    """
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    shown = key.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{inert(str(value))}"'
