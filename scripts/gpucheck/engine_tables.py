"""Writes the record of engines as Markdown: ONNX's node tests by operator, and networks."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MATCHED = ("exact", "tf32", "16 bits", "shapes")
"""Verdicts on node tests: within the suite's tolerance; within what TF32 costs; within what rounding to the output's 16 bits
explains; right in type and shape, where ONNX prescribes no values."""


FORMS = ("fp32", "fp16", "bf16")
"""In which networks have to agree, as the flags of `trtsmith convert --precision` are written."""

COMPARED = ("fp16 --accumulate fp16", "fp16 --accumulate fp32")
"""Forms that are shown beside these, and need not agree: one of them is the default."""


def was_done(record: Mapping[str, Any], step: str) -> bool:
    """Whether a step has findings, unlike one without time left."""
    rows = record["steps"].get(step, {}).get("rows", [])
    return any(row.get("verdict") != "not done" for row in rows)


def node_test_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(operator, cases, matched, of these within TF32's error, wrong, no engine or no run), as counts."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        groups[row["op"]][row["verdict"]] += 1
    lines: list[tuple[str, ...]] = []
    for op, counts in sorted(groups.items()):
        matched = sum(counts[verdict] for verdict in MATCHED)
        rest = sum(counts.values()) - matched - counts["wrong"]
        lines.append((op, *map(str, (sum(counts.values()), matched, counts["tf32"], counts["wrong"], rest))))
    return lines


def rule_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(rule, examples, matched, of these within TF32's error, others)."""
    named = node_test_rows([{**row, "op": row["rule"]} for row in rows])
    return [
        (rule, cases, matched, tf32, str(int(wrong) + int(rest)))
        for rule, cases, matched, tf32, wrong, rest in named
    ]


def graph_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(verdict, graphs, the message of the first)."""
    counted = [row for row in rows if "graphs" in row]
    return [(row["verdict"], str(row["graphs"]), row["reason"].replace("|", "\\|")) for row in counted]


def network_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(network, precision, engine's error, share of the allowed error, verdict), of the output nearest to its limit."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["precision"] in (*FORMS, *COMPARED):
            groups[row["network"], row["precision"]].append(row)
    lines: list[tuple[str, ...]] = []
    for (network, precision), group in groups.items():
        reasons = [row["reason"] for row in group if row.get("reason")]
        if reasons:
            lines.append((network, precision, "", "", reasons[0]))
            continue
        worst = max(group, key=_share)
        statuses = {row["status"] for row in group}
        verdict = "disagrees" if "disagree" in statuses else "agrees in part" if len(statuses) > 1 else ""
        error, share = worst["engine"], _share(worst)
        figures = (
            "infinite" if error is None else f"{error:.1e}",
            f"{share:.0%}" if share < math.inf else "",
        )
        lines.append((network, precision, *figures, verdict or {"agree": "agrees"}.get(*statuses, *statuses)))
    return lines


def sum_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(layer, products, precision, error, rounding error of the result, ratio)."""
    order = sorted(rows, key=lambda row: (row["precision"] != "fp16", row["layer"], row["products"]))
    return [(r["layer"], str(r["products"] or ""), r["precision"], *_figures(r)) for r in order]


def layer_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(product, precision, layers, wrong, largest error)."""
    order = sorted(rows, key=lambda row: (FORMS.index(row["form"]), row["product"]))
    return [
        (
            r["product"],
            r["form"],
            str(r["layers"]),
            str(r["wrong"]),
            "" if r["worst"] is None else f"{r['worst']:.1e}",
        )
        for r in order
    ]


def stress_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(engine, graph, where, runs, wrong)."""
    order = sorted(rows, key=lambda row: row["engine"])
    return [(r["engine"], r["form"], r["where"], f"{r['runs']:,}", str(r["wrong"])) for r in order]


def _figures(row: Mapping[str, Any]) -> tuple[str, str, str]:
    if "error" not in row:
        return "", "", row["problem"]
    return f"{row['error']:.1e}", f"{row['rounding']:.1e}", f"{row['error'] / row['rounding']:.1f}"


def planted_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(planted error, model, where, node, named first, verdict)."""
    return [
        (
            one["plant"] or "nothing",
            one["model"],
            "kernels" if "kernels" in one["on"] else one["on"],
            one.get("node", ""),
            next(iter(one.get("named", ())), ""),
            "right" if one["found"] else "; ".join(one["faults"]),
        )
        for one in searches(rows)
    ]


def searches(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each search for an error; "plant" is None for those with nothing planted."""
    return [one for row in rows for one in row["found"]["planted"]]


def planted_said(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many planted errors were found, and how often a search with nothing planted named nothing."""
    found = searches(rows)
    planted = [one["found"] for one in found if one["plant"] is not None]
    controls = [one["found"] for one in found if one["plant"] is None]
    return (
        f"{sum(planted)} of {len(planted)} errors were found and the right node was named; with nothing planted, nothing "
        f"was named in {sum(controls)} of {len(controls)} searches"
    )


def networks_said(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many networks agree in everything, in which of FORMS, and with how many outputs at each size."""
    judged = judged_outputs(rows)
    names = {row["network"] for row in judged}
    wrong = {row["network"] for row in judged if not row["passed"]}
    forms = [form for form in FORMS if any(row["precision"] == form for row in judged)]
    said = f"{len(names - wrong)} of {len(names)} networks agree, in {', '.join(forms)}"
    found = Counter(row["status"] for row in judged)
    counts = (
        f"{found['agree']} of {found.total()} outputs agree, {found['not comparable']} are not comparable"
    )
    return f"{said}: {counts}, {found['disagree']} disagree"


def judged_outputs(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of precisions that must agree, each an output at one size."""
    return [row for row in rows if row["precision"] in FORMS]


def _share(row: Mapping[str, Any]) -> float:
    """The error as a share of the allowed one. None: an error that is not finite."""
    return math.inf if row["engine"] is None or row["used"] is None else float(row["used"])


SAID: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], str]] = {
    "networks": networks_said,
    "planted": planted_said,
    "sums": lambda rows: (
        f"{sum(not row['problem'] for row in rows)} of {len(rows)} layers sum as conversions expect"
    ),
}
"""What is said of a step's rows, where that is not the step's own summary."""

Made = Callable[[Sequence[Mapping[str, Any]]], list[tuple[str, ...]]]

TABLES: Mapping[str, tuple[tuple[str, ...], Made]] = {
    "onnx-tests": (
        ("operator", "cases", "match", "of these by TF32's error", "wrong", "no engine, or no run"),
        node_test_rows,
    ),
    "rules": (("rule", "examples", "match", "of these by TF32's error", "others"), rule_rows),
    "networks": (
        ("network", "precision", "error of the engine", "of what is allowed", "verdict"),
        network_rows,
    ),
    "graphs": (("verdict", "graphs", "the first"), graph_rows),
    "planted": (("planted", "model", "on", "in the node", "named first", "verdict"), planted_rows),
    "stress": (("engine", "graph", "at once", "runs", "wrong"), stress_rows),
    "layers": (("product", "precision", "layers", "wrong", "largest error"), layer_rows),
    "sums": (
        ("layer", "products", "precision", "error", "of rounding the result", "times that"),
        sum_rows,
    ),
}
"""Of each step, the headings and what makes the lines."""


def heading(record: Mapping[str, Any]) -> str:
    """Machine and versions in one sentence."""
    packages = {name: version for name, version in record["packages"].items() if version}
    wanted = [name for name in ("tensorrt-rtx-cu13", "tensorrt", "onnx", "torch") if name in packages]
    said = ", ".join(f"{name} {packages[name]}" for name in wanted)
    return f"{record['gpu']}, driver {record['driver']}, {said}."
