"""Shows the engines that a search tried, and what it would try."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trtsmith.converter.cli.console import table
from trtsmith.converter.convert.recipe import Choices
from trtsmith.converter.rewrite.precision.report import short_reason
from trtsmith.converter.tune.choices import ReducedNetwork
from trtsmith.converter.tune.tune import Tuned
from trtsmith.importers.counted import counted

_LONGEST = 60
"""Characters of flags that a row shows."""


def render(done: Tuned, output: Path | None) -> str:
    """The engines that no other beats, the fastest first; then the best one, and how to make it again."""
    assert done.best is not None
    rows = [("", "ms", "error", "of bound", "MiB", "memory", "flags")]
    for one in done.shown:
        mark = "*" if one.recipe == done.best.recipe else ""
        sizes = f"{one.size / 2**20:.1f}", f"{one.memory / 2**20:.1f}"
        rows.append(
            (mark, f"{one.ms:.3g}", f"{one.error:.1e}", _share(one.used), *sizes, _short(one.recipe.flags()))
        )
    lines = [*table(rows), ""]
    failed = sum(bool(t.failed) for t in done.trials)
    of = f"{counted(done.sets, 'set')} of inputs" + (f", then {done.unseen} others" if done.unseen else "")
    lines.append(
        f"tried:    {counted(len(done.trials), 'engine')} in {done.seconds:.0f} s, {failed} failed; judged by {of}"
    )
    if done.default is not None:
        ratio = done.best.ms / done.default.ms
        than = f"{ratio:.3f} of the {done.default.ms:.3g} ms of {done.default.recipe.flags()}"
        lines.append(f"best:     {done.best.ms:.3g} ms, {than}; error {done.best.error:.1e}")
    if output is not None:
        lines.append(f"engine:   {output}")
    if done.recipe_file is not None:
        lines.append(f"recipe:   {done.recipe_file}")
    return "\n".join(lines)


def render_plan(first: Mapping[Choices, str], reduced: Mapping[str, ReducedNetwork]) -> str:
    """The first engines, and what is changed from the best of them on."""
    lines = ["first:"]
    lines += [f"  {choices.flags()}: {why}" for choices, why in first.items()]
    for name, known in reduced.items():
        counts = Counter(short_reason(kept.reason) for kept in known.kept)
        lines.append(
            f"then, from {name}: fewer nodes in float32, as long as the error stays within the bound"
        )
        lines += [f"  {count} × {reason}" for reason, count in counts.most_common()] or [
            "  (none is in float32)"
        ]
        if not known.units:
            lines.append(f"  (no node can be in {name})")
            continue
        lines.append(
            f"  or, where {name} is beyond the bound: as few as will do of {counted(len(known.units), 'node')} in float32"
        )
    return "\n".join(lines)


def _share(used: float) -> str:
    return f"{used:.0%}" if math.isfinite(used) else "-"


def _short(flags: str) -> str:
    return flags if len(flags) <= _LONGEST else f"{flags[: _LONGEST - 4]} ..."
