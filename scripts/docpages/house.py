"""Writes the budget of statements that `make lint` enforces."""

from __future__ import annotations

import json

import mass
from docpages.marks import markdown_table


def budget() -> str:
    """The limits of each row. Counts change with every commit: `scripts/mass.py` prints them."""
    rows = json.loads(mass.BUDGET.read_text())
    cells = [
        (
            ", ".join(f"`{folder}`" for folder in row["folders"]),
            f"{row['limit']:,}",
            f"{row['branching']:g} %",
            f"{row['wide']}",
            row["why"],
        )
        for row in rows
    ]
    head = (
        "folders",
        "statements",
        f"more than {mass.MANY_BRANCHES} branches",
        f"more than {mass.MANY_PARAMETERS} parameters",
        "what they are",
    )
    return markdown_table(head, cells)
