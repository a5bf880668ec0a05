"""Names the rules, custom operators and mitigations that a conversion used, for records of many networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtsmith.converter.rewrite.custom_ops import ALIASES

Met = Mapping[str, list[str]]
"""Sorted names by kind: "rules" (with passes), "aliases", "operators", "mitigations". A kind without a name is left out."""


def names_met(report: Mapping[str, Any]) -> Met:
    """The names in a report of `convert`. Empty for a conversion that failed, as its report lists no rewrites."""
    rewrites = [(one["pass_name"].split(", "), one["op_type"]) for one in report.get("rewrites", ())]
    return _sorted(
        {
            "rules": {name for names, _ in rewrites for name in names},
            "aliases": {op_type for names, op_type in rewrites if ALIASES.name in names},
            "operators": {plugin["name"] for plugin in report.get("plugins", ())},
            "mitigations": {one["mitigation"] for one in report.get("mended", ())},
        }
    )


def together(*several: Met) -> Met:
    """The names of several conversions of one network."""
    found: dict[str, set[str]] = {}
    for met in several:
        for kind, names in met.items():
            found.setdefault(kind, set()).update(names)
    return _sorted(found)


def _sorted(names: Mapping[str, set[str]]) -> Met:
    return {kind: sorted(some) for kind, some in names.items() if some}
