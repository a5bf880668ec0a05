"""Writes tables of scripts/real_models.py: pass rates, each network by form, failures, and packages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docpages.marks import escaped, markdown_table
from realmodels.model_forms import AS_IT_IS, FORMS
from realmodels.model_trial import AGREES

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RECORD = BENCHMARKS / "real_models.json"
GPU_RECORD = BENCHMARKS / "h200" / "real_models.json"

NOT_MADE = "onnxruntime cannot make it"
BUILDS = "builds"
NOT_RUN = "the engine could not be run"
COMPARED = " outputs compared: "

Entry = Mapping[str, Any]


def real_networks() -> str:
    return render_real_networks(json.loads(RECORD.read_text(encoding="utf-8")))


def real_engines() -> str:
    """The engines that ran on a GPU."""
    return render_real_engines(json.loads(GPU_RECORD.read_text(encoding="utf-8")))


def render_real_engines(record: Mapping[str, Any]) -> str:
    results: Sequence[Entry] = record["results"]
    agree = [result for result in results if result["outcome"] == AGREES]
    worst = max((result["relative"] or 0.0 for result in agree), default=0.0)
    commits = ", ".join(dict.fromkeys(result["commit"][:8] for result in results))
    packages = record["versions"]
    said = (
        f"{record['gpu']}, driver {record['driver']}, tensorrt-rtx {packages['tensorrt-rtx-cu13']}, onnxruntime "
        f"{packages['onnxruntime']}, commits {commits}. Of {len(results)} networks {len(agree)} agree, with relative "
        f"errors of at most {_error(worst)}."
    )
    rows = [
        (f"`{result['model']}`", escaped(result["outcome"].partition("\n")[0]), escaped(result["located"]))
        for result in results
        if result["outcome"] != AGREES
    ]
    return f"{said}\n\n{markdown_table(('network', 'verdict', 'what locate found'), rows)}" if rows else said


def given() -> list[Entry]:
    """The results for the packages' own files."""
    results = json.loads(RECORD.read_text(encoding="utf-8"))["results"]
    return [result for result in results if result["form"] == AS_IT_IS]


def engines() -> list[Entry]:
    """The results of their engines on a GPU."""
    found: list[Entry] = json.loads(GPU_RECORD.read_text(encoding="utf-8"))["results"]
    return found


def verdict(result: Entry) -> str:
    """The verdict in `verify`'s words, "not built" or "did not run"."""
    outcome = result["outcome"]
    if not result["engine_bytes"]:
        return "not built"
    if outcome == AGREES:
        return "agree"
    if outcome.startswith(NOT_RUN):
        return "did not run"
    if not _proves_nothing(result):
        return "disagree"
    return "agrees in part" if COMPARED in outcome else "not comparable"


def _proves_nothing(result: Entry) -> bool:
    """Whether an output is not comparable while the others agree."""
    return result["outcome"].startswith("output ") or COMPARED in result["outcome"]


def render_real_networks(record: Mapping[str, Any]) -> str:
    results: Sequence[Entry] = record["results"]
    said = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    by_model: dict[str, dict[str, Entry]] = defaultdict(dict)
    for result in results:
        by_model[result["model"]][result["form"]] = result
    packages = {entry["package"] for entry in results}
    parts = [
        f"{said}. {len(by_model)} networks of {len(packages)} packages.",
        _counts(results),
        _networks(by_model),
        "What does not pass:",
        _failures(results),
        "The packages, with the licences that they state:",
        _packages(results),
    ]
    return "\n\n".join(part for part in parts if part)


def _made(results: Iterable[Entry]) -> list[Entry]:
    return [result for result in results if not result["outcome"].startswith(NOT_MADE)]


def _counts(results: Sequence[Entry]) -> str:
    rows = []
    for form in FORMS:
        made = _made(result for result in results if result["form"] == form)
        built = [result for result in made if result["engine_bytes"]]
        agree = [result for result in built if result["outcome"] == AGREES]
        alone = [result for result in made if result["native"] == BUILDS]
        lost = [result for result in alone if not result["engine_bytes"]]
        rows.append((form, *(str(len(some)) for some in (made, alone, built, agree, lost))))
    head = (
        "form",
        "networks",
        "TensorRT-RTX alone builds",
        "trtsmith builds",
        "of these agree",
        "lost",
    )
    return markdown_table(head, rows)


def _networks(by_model: Mapping[str, Mapping[str, Entry]]) -> str:
    rows = []
    for name, forms in by_model.items():
        first = forms.get(AS_IT_IS) or next(iter(forms.values()))
        title = f"`{name}`, {first['about']}"
        rows.append(
            (
                title,
                f"{first['opset']}",
                f"{first['nodes']:,}",
                *(_cell(forms.get(form)) for form in FORMS),
                _mebibytes(first["engine_bytes"]),
            )
        )
    return markdown_table(("network", "opset", "nodes", *FORMS, "engine of the file as it is"), rows)


def _cell(result: Entry | None) -> str:
    """The result of one form, and of TensorRT-RTX alone."""
    if result is None:
        return "not tried"
    if result["outcome"].startswith(NOT_MADE):
        return "not made"
    if result["outcome"] == AGREES:
        said = AGREES if result["relative"] is None else f"{AGREES}, {_error(result['relative'])}"
    elif not result["engine_bytes"]:
        said = "no engine"
    elif result["relative"] is None:
        said = "engine, not compared"
    elif _proves_nothing(result):
        said = "not comparable"
    else:
        said = f"differs, {_error(result['relative'])}"
    return f"{said}; alone: {'builds' if result['native'] == BUILDS else 'no'}"


def _error(relative: float) -> str:
    return f"{relative:.0e}" if relative else "0"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size else "none"


def _failures(results: Sequence[Entry]) -> str:
    """The reasons without the nodes, which messages name in further lines."""
    failed = [result for result in results if result["outcome"] != AGREES]
    rows = [
        (f"`{result['model']}`", result["form"], escaped(result["outcome"].partition("\n")[0]))
        for result in failed
    ]
    return markdown_table(("network", "form", "reason"), rows) if rows else "Nothing."


def _packages(results: Sequence[Entry]) -> str:
    models: dict[tuple[str, str], list[str]] = defaultdict(list)
    for result in results:
        names = models[result["package"], result["licence"]]
        if result["model"] not in names:
            names.append(result["model"])
    rows = [
        (package, licence, ", ".join(f"`{name}`" for name in names))
        for (package, licence), names in models.items()
    ]
    return markdown_table(("package", "licence", "networks"), rows)
