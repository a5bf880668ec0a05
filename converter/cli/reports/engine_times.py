"""Prints the record of `trtsmith bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtsmith.converter.bench.layers import UNKNOWN
from trtsmith.converter.cli.console import one_line, table

STAGES = (
    ("latency", "latency_ms"),
    ("enqueue", "enqueue_ms"),
    ("H2D", "h2d_ms"),
    ("GPU compute", "compute_ms"),
    ("D2H", "d2h_ms"),
    ("response", "response_ms"),
)
"""Rows of the table of a run, and their keys."""

TERMS = """what the figures mean:
  throughput   inferences a second of host time; samples a second: times the batch
  latency      H2D + GPU compute + D2H of one inference
  enqueue      host time to enqueue one inference; above GPU compute, the host limits the throughput
  H2D, D2H     copying the inputs to the GPU and the outputs back, between CUDA events
  GPU compute  the engine's kernels, between CUDA events
  response     host time from the request to its result, one inference at a time
"""
"""For --help."""

_COLUMNS = ("min", "median", "mean", "p90", "p95", "p99")


def render(document: Mapping[str, Any], top: int) -> str:
    """Renders the record. top: the number of layers to show."""
    parts = [_engine(document), *map(_run, document["runs"])]
    if document["layers"]:
        parts.append(render_layers(document["layers"], top))
    if document["against"]:
        parts.append(_against(document["against"]))
    return "\n\n".join(parts)


def _engine(document: Mapping[str, Any]) -> str:
    engine, clocks = document["engine"], document["clocks"] or {}
    lines = [
        f"engine: {engine['path']} ({engine['bytes'] / 2**20:.1f} MiB, {engine['flavour']} {engine['version']}), "
        f"device memory {engine['device_memory'] / 2**20:.1f} MiB a context",
        f"GPU:    {document['gpu']}, driver {document['driver']}, {_clocks(clocks)}",
    ]
    return "\n".join(lines)


def _clocks(clocks: Mapping[str, Any]) -> str:
    if not clocks:
        return "clocks unknown"
    return (
        f"SM {clocks['sm_mhz']:g} of {clocks['max_sm_mhz']:g} MHz, memory {clocks['memory_mhz']:g} of "
        f"{clocks['max_memory_mhz']:g} MHz"
    )


def _run(run: Mapping[str, Any]) -> str:
    shapes = ", ".join(
        f"{name} {'x'.join(map(str, dims)) or 'scalar'}" for name, dims in run["shapes"].items()
    )
    graph = "with CUDA graph" if run["cuda_graph"] else "without CUDA graph"
    streams = f", {run['streams']} streams" if run["streams"] > 1 else ""
    transfers = "" if run["transfers"] else ", no transfers"
    title = f"{run['point']}: {one_line(shapes) or 'no inputs'}; {graph}{streams}{transfers}"
    if "unavailable" in run:
        return f"{title}\n  not measured: {one_line(run['unavailable'])}"
    rows: list[tuple[str, ...]] = [("ms", *_COLUMNS)]
    for label, key in STAGES:
        if run["transfers"] or key not in ("h2d_ms", "d2h_ms"):
            rows.append((label, *(f"{run[key][column]:.4g}" for column in _COLUMNS)))
    rate = f"throughput: {run['throughput']:.5g} inferences/s"
    rate += f", {run['samples_per_s']:.5g} samples/s (batch {run['batch']})"
    rate += f"; {run['queries']} inferences in {run['wall_s']:.3g} s"
    return "\n".join([title, rate, table(rows), *(f"  {one_line(remark)}" for remark in run["remarks"])])


def render_layers(layers: Mapping[str, Any], top: int) -> str:
    """Renders the slowest layers, and the shares of operator types and plugins."""
    rows: list[tuple[str, ...]] = [("share", "ms", "type", "layer")]
    for row in layers["layers"][:top]:
        kind = f"{row['type']} (plugin)" if row["plugin"] else row["type"]
        rows.append((f"{row['share']:.1%}", f"{row['ms']:.4g}", kind, _shortened(row["layer"])))
    left = len(layers["layers"]) - top
    head = f"layers, of {layers['sum_ms']:.4g} ms in {layers['inferences']} profiled inferences"
    lines = [head + (f"; {left} more are not shown" if left > 0 else ""), table(rows)]
    if {row["type"] for row in layers["layers"]} == {UNKNOWN}:
        lines.append(
            "operators and plugins: this engine does not tell; `trtsmith bench MODEL` builds one that does"
        )
        return "\n".join(lines)
    for key, title in (("by_type", "by type"), ("by_plugin", "plugins")):
        sums = [f"{s[key[3:]]} {s['share']:.1%} ({s['layers']})" for s in layers[key][:top]]
        lines.append(one_line(f"{title}: {', '.join(sums) or 'none'}"))
    return "\n".join(lines)


def _shortened(name: str, most: int = 80) -> str:
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _against(baselines: Sequence[Mapping[str, Any]]) -> str:
    rows: list[tuple[str, ...]] = [("against", "response ms", "ratio", "outputs", "")]
    for baseline in baselines:
        if "unavailable" in baseline:
            rows.append((baseline["name"], "-", "-", "-", f"not available: {baseline['unavailable']}"))
        else:
            median = baseline["response_ms"]["median"]
            verdict = baseline["status"] if baseline["agrees"] else baseline["status"].upper()
            rows.append(
                (baseline["name"], f"{median:.4g}", f"x{baseline['ratio']:.3g}", verdict, baseline["what"])
            )
    return table(rows)
