"""How results are shown: aligned text for terminals, tables for Jupyter."""

from __future__ import annotations

import html
from typing import Any, Iterable, Sequence


def columns(rows: Iterable[Sequence[Any]]) -> str:
    """Rows of cells, each column as wide as its widest cell.

    >>> print(columns([("a", "one"), ("long", "two")]))
    a     one
    long  two
    """
    texts = [[str(cell) for cell in row] for row in rows]
    count = max((len(row) for row in texts), default=0)
    widths = [max((len(row[i]) for row in texts if i < len(row)), default=0) for i in range(count)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in texts)


def table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), caption: str = "") -> str:
    """The same as HTML.

    >>> table([("<x>", 1)], header=("name", "size"))
    '<table><tr><th>name</th><th>size</th></tr><tr><td>&lt;x&gt;</td><td>1</td></tr></table>'
    """
    def row(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{row(header, 'th') if header else ''}{''.join(row(cells, 'td') for cells in rows)}</table>"


def count(number: float) -> str:
    """
    >>> count(227), count(25_557_032)
    ('227', '25.6 M')
    """
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if number >= scale:
            return f"{number / {'G': 1e9, 'M': 1e6, 'k': 1e3}[unit]:.1f} {unit}"
    return f"{number:g}"


def size(number: float) -> str:
    """
    >>> size(908), size(102_228_128)
    ('908 bytes', '97.5 MiB')
    """
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}"
    return f"{number:g} bytes"


def place_text(found: Any) -> str:
    """Where something was found: its graph, node and value, as far as it says."""
    node = f"node '{found.node}' ({found.op_type})" if found.node else ""
    return ", ".join(part for part in (found.graph, node, f"'{found.value}'" if found.value else "") if part)


def finding_text(found: Any, rule: str) -> str:
    """What was found where, by which rule, and below it what to do."""
    place = f"{found.place}: " if found.place else ""
    return f"{found.severity}: {place}{found.message} [{rule}]\n    {found.remedy}"
