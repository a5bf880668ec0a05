"""Writes the tables of networks' times from the records of bench_networks.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from docpages.marks import markdown_table, table_of

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
RECORDS = [FOLDER / "h200" / f"networks{which}.json" for which in ("", "_more")]

WAYS = (
    "plugins",
    "plugins, softmax apart",
    "native",
    "GridSample",
    "eager",
    "compile, CUDA graphs",
)

OURS = WAYS[:2]
"""Ways that are ours: what they are compared with is the best of the others."""

ROWS = 7
"""Kinds of layers that are shown of a network."""

Record = Mapping[str, Any]


def read() -> list[Record]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in RECORDS]


def network_times() -> str:
    """The table of scripts/bench_networks.py."""
    return render(read())


def network_layers() -> str:
    """The layers on which engines with plugins spend their time."""
    return render_layers(read())


def measured(records: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Each network, batch and precision that was timed, with its record."""
    found = [
        (row, record)
        for record in records
        for row in record["rows"]
        if any("median_ms" in way for way in row.get("rows", {}).values())
    ]
    return sorted(found, key=lambda pair: (pair[0]["network"], pair[0]["batch"], pair[0]["precision"]))


def render(records: Sequence[Record]) -> str:
    return f"{_machine(records[0])}. Medians in ms.\n\n{table_of(measured(records), COLUMNS)}"


def _machine(record: Record) -> str:
    packages = record["packages"]
    return (
        f"{record['gpu']}, driver {record['driver']}, tensorrt-rtx-cu13 {packages.get('tensorrt-rtx-cu13')}, "
        f"torch {packages.get('torch')}"
    )


def best_of_others(ways: Mapping[str, Any]) -> float | None:
    """The lowest median of the other ways, in ms."""
    return min(
        (it["median_ms"] for way, it in ways.items() if way not in OURS and "median_ms" in it), default=None
    )


def _ratio(ways: Mapping[str, Any]) -> str:
    best, mine = best_of_others(ways), ways.get("plugins", {}).get("median_ms")
    return f"{best:.3f}: {best / mine:.2f} times ours" if best is not None and mine else ""


def _time(name: str, pair: tuple[Record, Record]) -> str:
    way = pair[0]["rows"].get(name)
    if way is None:
        return ""
    return f"{way['median_ms']:.3f}" if "median_ms" in way else "none"


def _error(way: Record | None) -> str:
    errors = (way or {}).get("errors")
    return f"{max(errors.values()):.1e}" if errors else ""


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:.0f} MiB"


TITLES = ("plugins", "softmax apart", "native", "GridSample", "eager", "compiled, graphs")
COLUMNS: Mapping[str, Callable[[tuple[Record, Record]], str]] = {
    "network": lambda pair: pair[0]["network"],
    "batch": lambda pair: str(pair[0]["batch"]),
    "precision": lambda pair: pair[0]["precision"],
    "commit": lambda pair: pair[1]["commit"][:7],
    **{title: partial(_time, way) for title, way in zip(TITLES, WAYS, strict=True)},
    "best of the others": lambda pair: _ratio(pair[0]["rows"]),
    "error, plugins / eager": lambda pair: " / ".join(
        _error(pair[0]["rows"].get(way)) for way in ("plugins", "eager")
    ),
    "memory, plugins / native": lambda pair: " / ".join(
        _mib(pair[0]["rows"].get(way, {}).get("device_memory")) for way in ("plugins", "native")
    ),
}
"""Of a network's row and its record."""


LAYERS: Mapping[str, Callable[[tuple[Record, Record]], str]] = {
    "network": lambda pair: f"{pair[0]['network']}, batch {pair[0]['batch']}",
    "operators of a layer": lambda pair: pair[1]["type"][:60],
    "layers": lambda pair: str(pair[1]["layers"]),
    "ms": lambda pair: f"{pair[1]['ms']:.3f}",
    "of the engine": lambda pair: f"{100 * pair[1]['share']:.0f} %",
}
"""Of a network's row and a kind of its layers."""


def render_layers(records: Sequence[Record]) -> str:
    kinds = [
        (row, kind)
        for row, _ in measured(records)
        if row["precision"] == "fp16"
        for kind in (row["rows"].get("plugins", {}).get("layers") or {"by_type": []})["by_type"][:ROWS]
    ]
    return table_of(kinds, LAYERS)


def real_sizes() -> str:
    """The table of scripts/bench_real_networks.py."""
    return render_real_sizes(read_real_sizes())


def read_real_sizes() -> Record:
    record: Record = json.loads((FOLDER / "h200" / "real_networks.json").read_text(encoding="utf-8"))
    return record


def render_real_sizes(record: Record) -> str:
    """Every measured network, with time and error of each way."""
    done = [row for row in record["rows"] if "died" not in row]
    missing = [row["network"] for row in record["rows"] if "died" in row]
    left = f"\n\nNot measured in this run, whose time was over: {', '.join(missing)}." if missing else ""
    shares = [
        f"{len(ratios)} networks of {title}: {geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        for way, title in _REAL.items()
        if way != _OURS and (ratios := _ratios(done, way))
    ]
    share = f"The time of `convert`'s engines, geometric means over those that both run right: {'; '.join(shares)}."
    return f"{_rig(record)}\n\n{_by_way(done, _REAL)}\n\n{share}{left}"


def _rig(record: Record) -> str:
    return f"{_machine(record)}, commit {record['commit'][:7]}. Medians in µs, and errors."


def half_exports() -> str:
    """The table of networks that were exported in half, and of bfloat16."""
    record: Record = json.loads((FOLDER / "h200" / "real_networks_types.json").read_text(encoding="utf-8"))
    return f"{_rig(record)}\n\n{_by_way(record['rows'], _TYPES)}"


_TYPES: Mapping[str, str] = {
    "import half": "`module.half()`, TensorRT's own import",
    "fp16 of half": "`module.half()`, `convert`",
    "bf16": "`convert --precision bf16`",
}


def tuned_networks(file: str = "tuning.json") -> str:
    """The table of scripts/bench_tuning.py: the first engines of each search, and what it chose."""
    record: Record = json.loads((FOLDER / "h200" / file).read_text(encoding="utf-8"))
    rows, ratios = [], []
    for row in record["rows"]:
        if "died" in row:
            rows.append((row["network"], *("" for _ in _FIRST), "no engine in time", ""))
            continue
        found = {trial["flags"]: trial for trial in row["trials"]}
        best = row["best"]
        ratios.append(best["ms"] / row["default"]["ms"])
        chosen = "the first" if best["flags"] == next(iter(_FIRST)) else _trial(best)
        first = (_trial(found[flags]) if flags in found else "" for flags in _FIRST)
        rows.append((row["network"], *first, chosen, f"{ratios[-1]:.3f}"))
    table = markdown_table(("network", *_FIRST.values(), "`tune` chose", "over float16"), rows)
    mean = f"Geometric mean of `tune` over float16: {geometric_mean(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})."
    return f"{_rig(record)}\n\n{table}\n\n{mean}"


def repeated_runs() -> str:
    """The table of scripts/repeated_runs.py: how many runs differ, alone on the GPU and beside another process."""
    record: Record = json.loads((FOLDER / "h200" / "repeated_runs.json").read_text(encoding="utf-8"))
    cells: dict[tuple[str, str], list[str]] = {}
    for row in record["rows"]:
        apart = f", up to {row['apart']:.0%}" if row["different"] else ""
        cells.setdefault((row["network"], row["form"]), []).append(
            f"{row['different']} of {row['runs']}{apart}"
        )
    heads = ("network", "engine", "alone", "beside another process")
    table = markdown_table(heads, [(*names, *found) for names, found in cells.items()])
    return f"{_machine(record)}, commit {record['commit'][:7]}.\n\n{table}"


_FIRST: Mapping[str, str] = {
    "--precision fp16": "float16",
    "(no flags)": "float32",
    "--precision bf16": "bfloat16",
    "--precision int8": "int8",
    "--precision fp8": "fp8",
    "--as-is": "TensorRT's own import",
}
"""By its flags, what the table calls each of the first engines."""


def _trial(trial: Mapping[str, Any]) -> str:
    return "no engine" if trial["failed"] else _figures(trial["ms"], trial["error"])


class Beside(NamedTuple):
    """Another way compared with ours: the numbers of networks, of those that are right in each way and in both, and the mean
    of our time over the other's.
    """

    networks: int
    right: int
    ours_right: int
    both_right: int
    time: float


def beside(way: str) -> Beside:
    done = [row for row in read_real_sizes()["rows"] if "died" not in row]
    right, ours = (sum(_is_right(row["rows"].get(one, {})) for row in done) for one in (way, _OURS))
    ratios = _ratios(done, way)
    return Beside(len(done), right, ours, len(ratios), geometric_mean(ratios))


def _is_right(way: Mapping[str, Any]) -> bool:
    return bool(way.get("error", 1.0) < _WRONG)


def _ratios(rows: Sequence[Mapping[str, Any]], other: str) -> list[float]:
    """Our engine's time over another way's, for networks that are right in both."""
    both = [[row["rows"].get(way, {}) for way in (_OURS, other)] for row in rows]
    return [ours["median_ms"] / one["median_ms"] for ours, one in both if _is_right(ours) and _is_right(one)]


_OURS, _WRONG = "fp16", 0.1

_REAL: Mapping[str, str] = {
    "import half": "`module.half()`, TensorRT's own import",
    "compile half": "`torch.compile`, half",
    "fp16": "`convert --precision fp16`",
}
"""Ways of the record, and what the table calls them."""


def _by_way(rows: Sequence[Mapping[str, Any]], ways: Mapping[str, str]) -> str:
    """A table of time and error by network and way; "none" without a result. ways: what the table calls each."""

    def cell(way: Mapping[str, Any]) -> str:
        return _figures(way["median_ms"], way["error"]) if "median_ms" in way else "none"

    found = [(row["network"], *(cell(row["rows"].get(way, {})) for way in ways)) for row in rows]
    return markdown_table(("network", *ways.values()), found)


def _figures(ms: float, error: float) -> str:
    return f"{ms * 1e3:,.0f} / {error:.1e}"
