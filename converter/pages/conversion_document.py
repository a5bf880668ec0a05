"""Collects the data of one report (conversion, verification, search or timing) as plain data.

format      1
kind        "convert", "verify", "locate" or "bench". title: the model's file. command: the words of the command line
status      word, level ("good", "fair", "bad", "") and reason: the verdict in short. next: what to do, if anything
cards       [value, what it is]: the figures that one looks for first
problems    all that kept it from being done. warnings: sentences
verdict     as reports have it, or null. cost: sentences on what 8 bits cost
work        what was done to the graph, rewrites of one rule in one way together: rule, what, notes, numerics, ops
            (number by operator), count and nodes (their names, at most 1,000)
rules       by rule, pass or phase, the sentence that explains it
declined, frozen, io_types, mended, precision    as reports have them
network     the original's nodes with routes and places (network/node_values.py), or null
errors      [node or -1, value, error, reason] for each value that was compared, in order of execution; error is null
            where it has no finite number
times       by node [ms, most nodes that share a layer with it]
stands      for names of the engine's graph that the page shows, the node of the original that they stand for
bench       as `trtsmith bench --json` has it, or null. located: as `locate --json` has it, or null
versions    by package or thing. files: SHA-256 by file. seconds: by stage
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.pages.network.node_values import PicturedNetwork
from trtsmith.converter.rewrite.custom_ops import PASSES
from trtsmith.converter.rewrite.phases import PHASES
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.verify.cost.precision_cost import cost_from_json
from trtsmith.converter.verify.verdict_words import in_words

_PHASE_OF = {
    "quantized-moves": "moves",
    "byte-constants": "byte_constants",
    "separate-outputs": "outputs",
}
"""Phases that sign their records with another name."""


def explanations(names: Iterable[str]) -> dict[str, str]:
    """Returns the sentence for each name; a record may have several names, joined by commas. Unknown names are left out."""
    wanted = {part for name in names for part in name.split(", ") if part}
    found = {phase.name: phase.does for phase in PHASES}
    found |= {name: found[phase] for name, phase in _PHASE_OF.items()}
    found |= {one.name: one.doc for one in PASSES}
    for rule in RULES:
        seen = "; ".join(f"{fault.flavour} {', '.join(fault.seen)}" for fault in rule.faults)
        found[rule.name] = f"{rule.doc} (for a fault of TensorRT, seen in {seen})" if seen else rule.doc
    return {name: found[name] for name in sorted(wanted) if name in found}


FORMAT = 1

MOST_NODES = 1000
"""Names of nodes that are listed for one rewrite."""

PACKAGES = ("onnx", "onnxruntime", "numpy")
"""Whose versions a page says, beside ours and TensorRT's."""


@dataclass(frozen=True, eq=False)
class PageContent:
    """The content of a page. All but the first three fields may be missing.

    report:   as --report writes it, or {}. manifest: the engine's, or {}.
    network:  None where there is no model to draw.
    """

    kind: str
    title: str
    command: Sequence[str]
    report: Mapping[str, Any]
    manifest: Mapping[str, Any]
    network: PicturedNetwork | None = None
    located: Mapping[str, Any] | None = None
    bench: Mapping[str, Any] | None = None


def conversion_document(known: PageContent) -> dict[str, Any]:
    """Makes the page's data, as this module defines it."""
    report, network = known.report, known.network
    verdict = report.get("verdict") or known.manifest.get("verdict") or {}
    rewritten = network.rewritten if network is not None else None
    layers = (known.bench or {}).get("layers") or {}
    work = rewrites_in_groups(rewritten) if rewritten is not None else []
    declined = [asdict(record) for record in rewritten.declined] if rewritten is not None else []
    names = [group["rule"] for group in work] + [record["pass_name"] for record in declined]
    return {
        "format": FORMAT,
        "kind": known.kind,
        "title": known.title,
        "command": list(known.command),
        "status": _status(known),
        "cards": list(_cards(known)),
        "problems": list(report.get("problems", [])),
        "warnings": _warnings(known),
        "verdict": verdict or None,
        "cost": list(cost_from_json(verdict["cost"]).lines()) if verdict.get("cost") else [],
        "work": work,
        "rules": explanations(names),
        "declined": declined,
        "frozen": [asdict(record) for record in rewritten.frozen] if rewritten is not None else [],
        "io_types": [asdict(record) for record in rewritten.io_types] if rewritten is not None else [],
        "mended": list(report.get("mended", [])),
        "precision": _precision(report, rewritten),
        "network": network.data if network is not None else None,
        "errors": network.errors(known.located["values"]) if network is not None and known.located else [],
        "times": network.times(layers.get("layers", ())) if network is not None else {},
        "stands": _stands(known),
        "bench": known.bench,
        "located": known.located,
        "versions": _versions(known),
        "files": dict(known.manifest.get("files", {})),
        "seconds": dict(report.get("seconds", {})),
    }


def rewrites_in_groups(rewritten: Rewritten) -> list[dict[str, Any]]:
    """Groups rewrites by rule and kind, most frequent first."""
    groups: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
    for record in rewritten.rewrites:
        key = (record.pass_name, record.what, record.notes, record.numerics)
        groups.setdefault(key, []).append((record.node, record.op_type))
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        {
            "rule": rule,
            "what": what,
            "notes": list(notes),
            "numerics": list(numerics),
            "ops": dict(Counter(op_type for _, op_type in nodes).most_common()),
            "count": len(nodes),
            "nodes": [name for name, _ in nodes[:MOST_NODES]],
        }
        for (rule, what, notes, numerics), nodes in ordered
    ]


def _status(known: PageContent) -> dict[str, str]:
    report = known.report
    if known.kind == "bench":
        return {"word": "timed", "level": "", "reason": ""}
    if known.kind == "locate" and known.located is not None:
        level = {"agree": "good", "rounding": "fair"}.get(known.located["status"], "bad")
        return {"word": known.located["status"], "level": level, "reason": known.located["sentence"]}
    if not report.get("converted", report.get("verified", True)):
        what = report["problems"][0]["what"] if report.get("problems") else ""
        more = len(report.get("problems", ())) - 1
        return {
            "word": "not converted" if known.kind == "convert" else "not verified",
            "level": "bad",
            "reason": what + (f" (and {more} more)" if more > 0 else ""),
        }
    verdict = report.get("verdict")
    if verdict is None:
        return {"word": "converted", "level": "fair", "reason": "outputs were not compared"}
    basis = verdict.get("basis", ())
    level = {"agree": "fair" if basis else "good", "disagree": "bad"}.get(verdict["status"], "fair")
    graphs = "" if verdict["engine_run"] else "; the engine itself was not run"
    said = {"reason": verdict["reason"] + graphs, "next": verdict.get("advice", "")}
    return {"word": in_words(verdict["status"], basis), "level": level, **said}


def _cards(known: PageContent) -> Iterable[list[Any]]:
    routes = known.report.get("routes") or known.manifest.get("nodes") or {}
    if routes:
        yield [sum(routes.values()), "nodes"]
        yield from ([count, route] for route, count in routes.items() if route != "native")
    engine = known.report.get("engine")
    if isinstance(engine, Mapping):
        yield [_mebibytes(engine["size"]), "engine"]
        yield [", ".join(engine["targets"]), "target"]
    seconds = known.report.get("seconds")
    if seconds:
        yield [f"{sum(seconds.values()):.1f} s", "conversion"]
    if known.bench is not None:
        yield from _bench_cards(known.bench)


def _bench_cards(bench: Mapping[str, Any]) -> Iterable[list[Any]]:
    measured = [run for run in bench["runs"] if "unavailable" not in run]
    if measured:
        best = min(measured, key=lambda run: float(run["latency_ms"]["median"]))
        graph = "with CUDA graph" if best["cuda_graph"] else "without CUDA graph"
        yield [f"{best['latency_ms']['median']:.4g} ms", f"latency, median, {best['point']}, {graph}"]
        yield [f"{best['throughput']:.4g}", "inferences a second"]
    yield [_mebibytes(bench["engine"]["bytes"]), "engine"]
    yield [str(bench.get("gpu") or "?"), "GPU"]


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def _warnings(known: PageContent) -> list[str]:
    verdict = known.report.get("verdict") or {}
    bench = known.bench or {}
    found = (*known.report.get("warnings", ()), *verdict.get("warnings", ()), *bench.get("warnings", ()))
    return list(dict.fromkeys(found))


def _precision(report: Mapping[str, Any], rewritten: Rewritten | None) -> Any:
    if report.get("precision") is not None:
        return report["precision"]
    return (
        rewritten.precision.to_json() if rewritten is not None and rewritten.precision is not None else None
    )


def _stands(known: PageContent) -> dict[str, int]:
    """Where layers, kept nodes and culprits are in the network; those of the original's own names find themselves."""
    if known.network is None:
        return {}
    layers = ((known.bench or {}).get("layers") or {}).get("layers", ())
    shown = {name for layer in layers for name in layer["nodes"]}
    shown |= {node["name"] for node in (known.located or {}).get("nodes", ())}
    rewritten = known.network.rewritten
    if rewritten is not None and rewritten.precision is not None:
        shown |= {kept.node for kept in rewritten.precision.kept}
    own = {entry.name for entry in known.network.entries.all}
    return {name: known.network.by_node[name] for name in shown - own if name in known.network.by_node}


def _versions(known: PageContent) -> dict[str, str]:
    told = (known.report, known.bench or {}, known.manifest)
    found = {
        "trtsmith": next((str(one["trtsmith"]) for one in told if one.get("trtsmith")), toolkit_version())
    }
    engine = known.report.get("engine")
    tensorrt = known.manifest.get("tensorrt")
    if isinstance(engine, Mapping):
        found[str(engine["flavour"])] = str(engine["version"])
    elif isinstance(tensorrt, Mapping):
        found[str(tensorrt["flavour"])] = str(tensorrt["version"])
    elif known.bench is not None:
        found[str(known.bench["engine"]["flavour"])] = str(known.bench["engine"]["version"])
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    found["python"] = platform.python_version()
    found["system"] = platform.platform()
    if known.bench is not None and known.bench.get("driver"):
        found["driver"] = str(known.bench["driver"])
    return {name: version for name, version in found.items() if version}
