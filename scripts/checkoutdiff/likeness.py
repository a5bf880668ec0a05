"""Compares the results of two checkouts for one model: the graphs node by node, then the records of `check`."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkoutdiff.graph_text import Row, shown

IDENTICAL = "identical"
NAMES = "same but for names"
ORDER = "same but for order"
RECORDS = "other records"
DIFFERENT = "different"

LEVELS = (IDENTICAL, NAMES, ORDER, RECORDS, DIFFERENT)
"""From best to worst. ORDER: of nodes that do not depend on each other, or of records; made-up names may differ too."""

WORST_GOOD = ORDER

Found = Mapping[str, Any]


@dataclass(frozen=True)
class Likeness:
    """How alike two results are. level: one of LEVELS; line: the first difference that counts, or "". types: whether
    inferred types agree, which do not count.
    """

    level: str
    line: str = ""
    types: bool = True

    @property
    def good(self) -> bool:
        return LEVELS.index(self.level) <= LEVELS.index(WORST_GOOD)


def compare(before: Found, after: Found) -> Likeness:
    if "died" in before or "died" in after:
        ends = [found.get("died", "") or "ends well" for found in (before, after)]
        return (
            Likeness(IDENTICAL)
            if ends[0] == ends[1]
            else Likeness(DIFFERENT, f"before: {ends[0]}; after: {ends[1]}")
        )
    graphs = before["graph"], after["graph"]
    if None in graphs:
        level, line, names, types = IDENTICAL, "", {}, True
        if graphs[0] is not graphs[1]:
            ends = ["no graph" if graph is None else "a graph" for graph in graphs]
            said = next(found["rewrite"]["said"] for found in (before, after) if found["graph"] is None)
            return Likeness(DIFFERENT, f"before: {ends[0]}; after: {ends[1]}; rewrite says: {_short(said)}")
    else:
        level, line = _graphs(*graphs)
        if level == DIFFERENT:
            return Likeness(level, line)
        names = {} if level == IDENTICAL else _renamed(*graphs)
        types = level != IDENTICAL or graphs[0]["types"] == graphs[1]["types"]
    said = [{key: found[key] for key in ("check", "rewrite", "records")} for found in (before, after)]
    earlier, later = _renamed_in(said[0], names), said[1]
    if earlier == later:
        return Likeness(level, line, types)
    if _sorted(earlier) == _sorted(later):
        return Likeness(ORDER, line, types)
    return Likeness(RECORDS, next(_differences(_sorted(earlier), _sorted(later), "")), types)


def _graphs(before: Found, after: Found) -> tuple[str, str]:
    for one, other in zip([*before["heads"], "nothing"], [*after["heads"], "nothing"], strict=False):
        if one != other:
            return DIFFERENT, f"before: {_short(one)}; after: {_short(other)}"
    if before["rows"] == after["rows"]:
        # The digests follow from the rows; that they differ would be a mistake of ours.
        return IDENTICAL, ""
    if before["prints"] == after["prints"]:
        return NAMES, ""
    if Counter(before["prints"]) == Counter(after["prints"]):
        return ORDER, ""
    return DIFFERENT, _first_rows(before, after)


def _first_rows(before: Found, after: Found) -> str:
    """The first node on each side that the other side lacks; if there is none, the first with other readers."""
    by = "prints" if Counter(before["digests"]) == Counter(after["digests"]) else "digests"
    sides = []
    for one, other in ((before, after), (after, before)):
        left: Counter[str] = Counter(other[by])
        sides.append("all nodes are in the other")
        for row, digest in zip(one["rows"], one[by], strict=True):
            left[digest] -= 1
            if left[digest] < 0:
                sides[-1] = _short(shown(row))
                break
    return f"before: {sides[0]}; after: {sides[1]}"


def _renamed(before: Found, after: Found) -> dict[str, str]:
    """The later name of each node and value whose name changed."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for row, digest in zip(after["rows"], after["prints"], strict=True):
        rows[digest].append(row)
    names: dict[str, str] = {}
    for (_, _, name, _, outputs, _), digest in zip(before["rows"], before["prints"], strict=True):
        _, _, later_name, _, later_outputs, _ = rows[digest].pop(0)
        names.update(zip([name, *outputs], [later_name, *later_outputs], strict=True))
    return {one: other for one, other in names.items() if one != other}


_QUOTED = re.compile(r"(?<=')[^']+(?=')|^[^']+$")
"""Where a text may have the name of a node: all of it, or between quotes."""


def _renamed_in(value: Any, names: Mapping[str, str]) -> Any:
    """The value with the later names of nodes and values, also in keys."""
    if isinstance(value, dict):
        return {_renamed_in(k, names): _renamed_in(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed_in(item, names) for item in value]
    if isinstance(value, str):
        return _QUOTED.sub(lambda found: names.get(found[0], found[0]), value)
    return value


def _sorted(value: Any) -> Any:
    """The report with sorted lists, which hides the order of phases."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return sorted(value.splitlines()) if isinstance(value, str) and "\n" in value else value


def _differences(one: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            if key not in one or key not in other:
                yield f"{where}{key} is only {'before' if key in one else 'after'}"
            else:
                yield from _differences(one[key], other[key], f"{where}{key}.")
    elif isinstance(one, list) and isinstance(other, list):
        missing = [[item for item in a if item not in b] for a, b in ((one, other), (other, one))]
        if any(missing) or len(one) != len(other):
            texts = [_short(json.dumps(m[0], ensure_ascii=False)) if m else "nothing more" for m in missing]
            yield f"{where.rstrip('.')}: before: {texts[0]}; after: {texts[1]}"
    elif one != other:
        yield f"{where.rstrip('.')}: before: {_short(str(one))}; after: {_short(str(other))}"


def _short(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
