"""Writes the table of the checks of `trtsmith plugin test`, from their docstrings."""

from __future__ import annotations

import inspect

from docpages.marks import escaped, markdown_table
from trtsmith.converter.plugin.checks.checks_gpu import KERNEL_CHECKS
from trtsmith.converter.plugin.test_worker import CHECKS


def plugin_checks() -> str:
    """One line for each check, kernel checks last."""
    rows = [(check.name, _first_line(check.run), check.advice) for check in CHECKS]
    rows += [(check.name, check.about, check.advice) for check in KERNEL_CHECKS]
    return markdown_table(
        ("check", "what must hold", "advice, because"),
        [(name, escaped(about), escaped(advice)) for name, about, advice in rows],
    )


def _first_line(function: object) -> str:
    text = inspect.getdoc(function)
    if not text:
        raise ValueError(f"{function} has no docstring, and the table of checks needs one")
    return text.splitlines()[0]
