"""The record of a comparison: counts, a line for each model that differs, and which of these differences were expected."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from checkoutdiff.likeness import LEVELS, Likeness
from checkoutdiff.result_store import versions


@dataclass(frozen=True)
class Expected:
    """Differences that are meant. models: reasons by pattern; words: said before, said after; added: keys of records that
    only the later checkout has."""

    models: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    added: Sequence[str] = ()

    def pattern(self, job: str) -> str:
        """The first that names the job; "" if none does."""
        model = job.rsplit(" @", 1)[0]
        line = job.replace(" @", " ")
        # A name may have brackets.
        patterns = {pattern: pattern.replace("[", "[[]") for pattern in self.models}
        return next(
            (p for p, form in patterns.items() if fnmatchcase(model, form) or fnmatchcase(line, form)), ""
        )


def read_expected(path: Path | None) -> Expected:
    known: dict[str, Any] = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    read = [entry.name for entry in fields(Expected)]
    if known.keys() - set(read):
        raise SystemExit(
            f"{path}: only {', '.join(read)} are read, not {', '.join(sorted(known.keys() - set(read)))}"
        )
    return Expected(**known)


def to_record(
    found: Mapping[str, Likeness], expected: Expected, commits: Mapping[str, str]
) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    differing: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    matched: set[str] = set()
    for job, likeness in found.items():
        counts[job.split("/", 1)[0]][likeness.level] += 1
        if not likeness.good:
            model, variant = job.rsplit(" @", 1)
            pattern = expected.pattern(job)
            matched.add(pattern)
            differing[model, f"{likeness.level}: {likeness.line}", pattern].append(variant)
    rows = [
        {"model": model, "variants": variants, "line": line, "reason": expected.models.get(pattern, "")}
        for (model, line, pattern), variants in differing.items()
    ]
    return {
        "commits": {side: commit or "with changes" for side, commit in commits.items()},
        "versions": versions(),
        "compared": len(found),
        "counts": {source: {level: count[level] for level in LEVELS} for source, count in counts.items()},
        "other_types": sum(not likeness.types for likeness in found.values()),
        "unexpected": [row for row in rows if not row["reason"]],
        "expected": [row for row in rows if row["reason"]],
        "unmatched": sorted(expected.models.keys() - matched),
    }


def render(record: Mapping[str, Any]) -> str:
    """The report as text: a line for each model and difference, then the counts."""
    lines = [f"{row['model']} ({'; '.join(row['variants'])}): {row['line']}" for row in record["unexpected"]]
    lines += [
        f"expected, {row['reason']}: {row['model']} ({'; '.join(row['variants'])})"
        for row in record["expected"]
    ]
    lines += [f"expected, but nothing differs: {pattern}" for pattern in record["unmatched"]]
    lines += ["", f"{'':10}" + "".join(f"{level:>20}" for level in LEVELS)]
    lines += [
        f"{source:10}" + "".join(f"{count[level]:20}" for level in LEVELS)
        for source, count in record["counts"].items()
    ]
    known = sum(len(row["variants"]) for row in record["expected"])
    new = sum(len(row["variants"]) for row in record["unexpected"])
    lines.append(
        f"{record['compared']} compared: {new} differ, {known} more as expected; "
        f"{record['other_types']} identical graphs have other inferred types"
    )
    return "\n".join(lines)
