"""The budget of lines, as `make lint` holds it."""

from __future__ import annotations

import json

import mass
from docpages.marks import markdown_table


def budget() -> str:
    """Each row's limit and goal, and what its lines are. Counts change with every commit: `scripts/mass.py` prints them."""
    rows = json.loads(mass.BUDGET.read_text())
    cells = [
        (", ".join(f"`{f}`" for f in row["folders"]), f"{row['limit']:,}", f"{row['goal']:,}", row["why"])
        for row in rows
    ]
    return markdown_table(("folders", "limit", "goal", "what the lines are"), cells)
