"""Writes the pages of scripts/popular_networks.py: the sums, and for each library its networks and their exports."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from docpages.marks import Parts, escaped, markdown_table
from popularnetworks.network_trial import BUILDS, PRECISIONS

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "popular_networks.json"
GPU_RECORD = RECORD.parent / "h200" / RECORD.name
AGREE = "agree"
VERDICTS = (AGREE, "agrees in part", "not comparable", "disagree", "no engine")

Row = Mapping[str, Any]


def read(record: Path = RECORD) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return document


def popular_networks() -> str:
    return render_popular_networks(read())


def on_gpu() -> list[Row]:
    """The results of their engines on the H200."""
    rows: list[Row] = read(GPU_RECORD)["rows"]
    return rows


def page_of(library: str) -> str:
    """The library's page, below docs/."""
    return f"evidence/popular/{library.replace('_', '-')}.md"


def pages() -> dict[str, Parts]:
    """The generated part of each library's page."""
    libraries = dict.fromkeys(row["library"] for row in read()["rows"])
    return {f"docs/{page_of(one)}": {one: partial(popular_library, one)} for one in libraries}


def popular_library(library: str) -> str:
    record, engines = read(), read(GPU_RECORD)
    rows = [row for row in record["rows"] if row["library"] == library]
    ran = [row for row in engines["rows"] if row["library"] == library]
    return "\n\n".join(
        [
            render_library(rows),
            *([render_engines(engines, ran)] if ran else []),
            render_popular_programs(rows),
        ]
    )


def render_library(rows: Sequence[Row]) -> str:
    first = rows[0]
    said = f"{first['library']} {first['version']}" if first.get("version") else first["library"]
    return f"{said}. {_networks_said(rows)}\n\n{_networks(rows)}"


def _networks_said(rows: Sequence[Row]) -> str:
    names, made = {row["network"] for row in rows}, [row for row in rows if not row["export"]]
    alone = sum(row.get("alone") == BUILDS for row in made)
    return (
        f"{len(names)} network{'s' * (len(names) > 1)}, {len(rows)} export{'s' * (len(rows) > 1)}, of which "
        f"{len(rows) - len(made)} fail. TensorRT-RTX alone builds {alone} of {len(made)} files."
    )


def render_engines(record: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The engines that ran on a GPU."""
    found: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        found[row["network"], row["exporter"]][row["precision"]] = row
    lines = [(*names, *(_cell(by.get(one)) for one in PRECISIONS[:2])) for names, by in found.items()]
    versions = f"driver {record['driver']}, TensorRT-RTX {record['packages']['tensorrt-rtx-cu13']}"
    table = markdown_table(("network", "exporter", *PRECISIONS[:2]), lines)
    return f"## As engines\n\n{record['gpu']}, {versions}.\n\n{table}"


def _tried(rows: Sequence[Row], precision: str) -> list[Row]:
    return [row["precisions"][precision] for row in rows if precision in row.get("precisions", {})]


def render_popular_networks(record: Mapping[str, Any]) -> str:
    rows: Sequence[Row] = record["rows"]
    said = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    counts = []
    for precision in PRECISIONS:
        verdicts = Counter(one["verdict"] for one in _tried(rows, precision))
        if verdicts:
            counts.append((precision, *map(str, (verdicts.total(), *(verdicts[one] for one in VERDICTS)))))
    return "\n\n".join(
        [
            f"{said}. {_networks_said(rows)}",
            markdown_table(("precision", "tried", *VERDICTS), counts),
            _libraries(rows),
            "What does not pass, by cause:",
            _failures(rows),
        ]
    )


def _libraries(rows: Sequence[Row]) -> str:
    lines = []
    for library in dict.fromkeys(row["library"] for row in rows):
        own = [row for row in rows if row["library"] == library]
        names = {row["network"] for row in own}
        agreeing = (_tried(own, precision) for precision in PRECISIONS)
        agree = [
            f"{sum(one['verdict'] == AGREE for one in tried)} of {len(tried)}" if tried else ""
            for tried in agreeing
        ]
        link = f"[{library}]({page_of(library).removeprefix('evidence/')})"
        about = (own[0].get("version", ""), own[0].get("licence", ""))
        lines.append((link, *about, f"{len(names)}", f"{len(own)}", *agree))
    head = ("library", "version", "licence", "networks", "exports", *(f"{one} agree" for one in PRECISIONS))
    return markdown_table(head, lines)


def _networks(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        size = "no file" if row["export"] else f"{row['opset']}, {row['nodes']:,}"
        lines.append(
            (
                f"[{row['network']}](#{_anchor(row)}), {row['about']}",
                row["exporter"],
                size,
                ", ".join(row.get("dynamic", ())),
                {BUILDS: "builds"}.get(row.get("alone", BUILDS), "no") if "alone" in row else "",
                *(_cell(row.get("precisions", {}).get(precision)) for precision in PRECISIONS),
            )
        )
    head = ("network", "exporter", "opset, nodes", "dynamic", "TensorRT-RTX alone", *PRECISIONS)
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
    """A heading and a section for each network: its program, then a line for each exporter."""
    programs: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        lines = programs.setdefault((f"### {_title(row)}", row["program"][0]), [])
        lines.append(f"# {row['exporter']}{' (fails)' if row['export'] else ''}\n{row['program'][1]}")
    parts, before = ["## How each network is exported"], ""
    for (title, build), lines in programs.items():
        code = "\n".join(["```python", build, *lines, "```"])
        parts.append(code if title == before else f"{title}\n\n{code}")
        before = title
    return "\n\n".join(parts)
