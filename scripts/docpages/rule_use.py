"""Writes which networks need which rules, custom operators and mitigations, from the names that records hold of each."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table
from harness.names_met import Met, together
from networkbench.graphs import NETWORKS as TIMED
from realmodels.model_forms import AS_IT_IS
from trtsmith.converter.convert.workarounds.mitigations import MITIGATIONS
from trtsmith.converter.rewrite.custom_ops import PASSES
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.target import RTX
from trtsmith.importers.registry import OPS

RECORDS = Path(__file__).resolve().parents[2] / "benchmarks"

Found = Iterable[tuple[str, Met | None]]
"""Networks with the names of a conversion; None where the record is older than these. A network may stand several times."""


@dataclass(frozen=True)
class Networks:
    """Networks of one record. synthetic: whether they are tests of single operators, which nobody deploys."""

    title: str
    file: str
    found: Callable[[Mapping[str, Any]], Found]
    synthetic: bool = False

    def known(self) -> tuple[dict[str, Met], int]:
        """The names by network, and the number of networks, with those whose record lacks names."""
        by_network: dict[str, list[Met | None]] = defaultdict(list)
        for network, met in self.found(json.loads((RECORDS / self.file).read_text(encoding="utf-8"))):
            by_network[network].append(met)
        known = {
            network: together(*(met for met in several if met is not None))
            for network, several in by_network.items()
            if None not in several
        }
        return known, len(by_network)


NETWORKS = (
    Networks("popular networks", "popular_networks.json", lambda one: _rows(one["rows"], "network")),
    Networks(
        "of packages",
        "real_models.json",
        lambda one: _rows((row for row in one["results"] if row["form"] == AS_IT_IS), "model"),
    ),
    Networks(
        "the same, written by onnxruntime",
        "real_models.json",
        lambda one: _rows((row for row in one["results"] if row["form"] != AS_IT_IS), "model"),
    ),
    Networks("of real size", "convert_seconds.json", lambda one: _rows(one["rows"], "network")),
    Networks(
        "of `models/`",
        "networks_float16.json",
        lambda one: ((name, one[name]["plugins"].get("met")) for name in TIMED),
    ),
    Networks("ONNX's tests", "onnx_coverage.json", lambda one: _rows(one["cases"], "name"), synthetic=True),
)

KNOWN: Mapping[str, Sequence[str]] = {
    "rules": [*(one.name for one in PASSES), *(rule.name for rule in RULES)],
    "operators": [op.name for op in OPS],
    "aliases": list(dict.fromkeys(alias.op_type for op in OPS for alias in op.aliases)),
    "mitigations": [one.name for one in MITIGATIONS],
}
"""By kind, the names that a network can need. Records name further steps of rewriting among the rules, such as "types"."""

ELSEWHERE = frozenset(rule.name for rule in RULES if not rule.concerns(RTX))
"""Rules for another TensorRT than TensorRT-RTX, with which the records are made."""


NONE = "No network on record needs one."
UNKNOWN = "No record of networks has names yet: what follows is of ONNX's tests alone."


def _rows(rows: Iterable[Mapping[str, Any]], name: str) -> Found:
    """The rows' networks, without those that could not be exported."""
    return ((row[name], row.get("met")) for row in rows if not row.get("export"))


def records() -> str:
    """How many networks of each record have their names in it."""
    known = [(one, *one.known()) for one in NETWORKS]
    rows = [(one.title, f"`{one.file}`", f"{len(met):,} of {count:,}") for one, met, count in known]
    return markdown_table(("networks", "record", "with names"), rows)


def of_kind(kind: str) -> Callable[[], str]:
    return lambda: render(kind, [(one, one.known()[0]) for one in NETWORKS])


def render(kind: str, columns: Sequence[tuple[Networks, Mapping[str, Met]]]) -> str:
    """The number of networks that need each name, by record; then the names that only tests need, or none."""
    shown = [(one, known) for one, known in columns if known]
    counts = [_counts(known.values(), kind) for _, known in shown]
    total: Counter[str] = Counter()
    for (one, _), count in zip(shown, counts, strict=True):
        total.update({} if one.synthetic else count)
    met = sorted(total, key=lambda name: (-total[name], name))
    header = (kind, *(f"{one.title} ({len(known):,})" for one, known in shown))
    rows = [(f"`{name}`", *(str(count[name] or "") for count in counts)) for name in met]
    tested = {name for count in counts for name in count} - {*met}
    left = {*KNOWN[kind]} - tested - {*met}
    empty = NONE if any(not one.synthetic for one, _ in shown) else UNKNOWN
    parts = [
        markdown_table(header, rows) if rows else empty,
        _listed("Only ONNX's tests reach", tested),
        _listed("No network or test on record reaches", left - ELSEWHERE),
        _listed("For NVIDIA's TensorRT alone, while these records are of TensorRT-RTX", left & ELSEWHERE),
    ]
    return "\n\n".join(filter(None, parts))


def _counts(several: Iterable[Met], kind: str) -> Counter[str]:
    """The number of networks by name. Aliases count without their domain."""
    return Counter(name for met in several for name in {one.rpartition("::")[2] for one in met.get(kind, ())})


def _listed(said: str, names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in sorted(names)]
    return f"{said} ({len(shown)}): {', '.join(shown)}." if shown else ""
