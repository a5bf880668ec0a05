"""Tables of what scripts/popular_networks.py found, and the program that exports each network."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docpages.marks import escaped, markdown_table
from popularnetworks.network_trial import BUILDS, PRECISIONS

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "popular_networks.json"
AGREE = "agree"

Row = Mapping[str, Any]


def read(record: Path = RECORD) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return document


def popular_networks() -> str:
    return render_popular_networks(read())


def popular_programs() -> str:
    return render_popular_programs(read()["rows"])


def on_gpu() -> list[Row]:
    """Their engines on the H200."""
    rows: list[Row] = read(RECORD.parent / "h200" / RECORD.name)["rows"]
    return rows


def popular_engines() -> str:
    """A table for each GPU of which there is a record."""
    parts = []
    for path in sorted(RECORD.parent.glob(f"*/{RECORD.name}")):
        record = read(path)
        found: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
        for row in record["rows"]:
            found[row["network"], row["library"], row["exporter"]][row["precision"]] = row
        head = ("network", "library", "exporter", *PRECISIONS[:2])
        lines = [(*names, *(_cell(by.get(one)) for one in PRECISIONS[:2])) for names, by in found.items()]
        versions = f"driver {record['driver']}, TensorRT-RTX {record['packages']['tensorrt-rtx-cu13']}"
        parts += [f"{record['gpu']}, {versions}.", markdown_table(head, lines)]
    return "\n\n".join(parts)


def _tried(rows: Sequence[Row], precision: str) -> list[Row]:
    return [row["precisions"][precision] for row in rows if precision in row.get("precisions", {})]


def render_popular_networks(record: Mapping[str, Any]) -> str:
    rows: Sequence[Row] = record["rows"]
    said = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    names = {row["network"] for row in rows}
    libraries = dict.fromkeys(
        (row["library"], row.get("version", ""), row.get("licence", "")) for row in rows
    )
    counts = [
        (
            precision,
            str(len(tried)),
            str(sum(one["builds"] for one in tried)),
            str(sum(one["verdict"] == AGREE for one in tried)),
            str(sum(one["verdict"] == "disagree" for one in tried)),
        )
        for precision in PRECISIONS
        if (tried := _tried(rows, precision))
    ]
    made = [row for row in rows if not row["export"]]
    alone = sum(row.get("alone") == BUILDS for row in made)
    return "\n\n".join(
        [
            f"{said}. {len(names)} networks, {len(rows)} exports, of which {len(rows) - len(made)} fail. "
            f"TensorRT-RTX alone builds {alone} of {len(made)} files.",
            markdown_table(("precision", "tried", "trtsmith builds", "agree", "disagree"), counts),
            _networks(rows),
            "What does not pass, by cause:",
            _failures(rows),
            "The libraries, with the licences that they state:",
            markdown_table(("library", "version", "licence"), sorted(libraries)),
        ]
    )


def _networks(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        size = "no file" if row["export"] else f"{row['opset']}, {row['nodes']:,}"
        lines.append(
            (
                f"[{row['network']}](#{_anchor(row)}), {row['about']}",
                row["library"],
                row["exporter"],
                size,
                ", ".join(row.get("dynamic", ())),
                {BUILDS: "builds"}.get(row.get("alone", BUILDS), "no") if "alone" in row else "",
                *(_cell(row.get("precisions", {}).get(precision)) for precision in PRECISIONS),
            )
        )
    head = ("network", "library", "exporter", "opset, nodes", "dynamic", "TensorRT-RTX alone", *PRECISIONS)
    return markdown_table(head, lines)


def _cell(found: Row | None) -> str:
    if found is None:
        return ""
    error = "" if found["relative"] is None else f", {found['relative']:.0e}"
    return f"{found['verdict']}{error}, {found['seconds']:.0f} s"


def _failures(rows: Sequence[Row]) -> str:
    causes = defaultdict(list)
    for row in rows:
        name = f"{row['network']} ({row['library']}, {row['exporter']})"
        if row["export"]:
            causes[f"export: {row['export']}"].append(name)
        if "static" in row:
            causes[f"export with dynamic axes: {row['static']}"].append(name)
        for precision, found in row.get("precisions", {}).items():
            if found["verdict"] != AGREE:
                causes[f"{found['verdict']}: {found['why']}"].append(f"{name} {precision}")
    return markdown_table(
        ("cause", "networks"), [(escaped(cause), ", ".join(of)) for cause, of in causes.items()]
    )


def _title(row: Row) -> str:
    return f"{row['network']} ({row['library']}) to ONNX and TensorRT"


def _anchor(row: Row) -> str:
    kept = "".join(letter for letter in _title(row).lower() if letter.isalnum() or letter in " -_")
    return "-".join(kept.split())


def render_popular_programs(rows: Sequence[Row]) -> str:
    """A section for each network: what makes it, then a line for each exporter."""
    programs: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        lines = programs.setdefault((f"### {_title(row)}", row["program"][0]), [])
        lines.append(f"# {row['exporter']}{' (fails)' if row['export'] else ''}\n{row['program'][1]}")
    parts, before = [], ""
    for (title, build), lines in programs.items():
        code = "\n".join(["```python", build, *lines, "```"])
        parts.append(code if title == before else f"{title}\n\n{code}")
        before = title
    return "\n\n".join(parts)
