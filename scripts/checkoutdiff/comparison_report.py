"""Writes the record of a comparison: counts, and a line for each model that differs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from checkoutdiff.checkout_state import versions
from checkoutdiff.likeness import LEVELS, Likeness


def to_record(found: Mapping[str, Likeness], commits: Mapping[str, str]) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    differing: dict[tuple[str, str], list[str]] = defaultdict(list)
    for job, likeness in found.items():
        counts[job.split("/", 1)[0]][likeness.level] += 1
        if not likeness.good:
            model, variant = job.rsplit(" @", 1)
            differing[model, f"{likeness.level}: {likeness.line}"].append(variant)
    return {
        "commits": {side: commit or "with changes" for side, commit in commits.items()},
        "versions": versions(),
        "compared": len(found),
        "counts": {source: {level: count[level] for level in LEVELS} for source, count in counts.items()},
        "other_types": sum(not likeness.types for likeness in found.values()),
        "differing": [
            {"model": model, "variants": variants, "line": line}
            for (model, line), variants in differing.items()
        ],
    }


def render(record: Mapping[str, Any]) -> str:
    """The report as text: a line for each model and difference, then the counts."""
    lines = [f"{row['model']} ({'; '.join(row['variants'])}): {row['line']}" for row in record["differing"]]
    lines += ["", f"{'':10}" + "".join(f"{level:>20}" for level in LEVELS)]
    lines += [
        f"{source:10}" + "".join(f"{count[level]:20}" for level in LEVELS)
        for source, count in record["counts"].items()
    ]
    differ = sum(len(row["variants"]) for row in record["differing"])
    lines.append(
        f"{record['compared']} compared: {differ} differ; "
        f"{record['other_types']} identical graphs have other inferred types"
    )
    return "\n".join(lines)
