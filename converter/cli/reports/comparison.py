"""Prints the verdict of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trtsmith.converter.cli.console import one_line, table
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.verdict import AGREE, DISAGREE, Verdict
from trtsmith.converter.verify.verdict_words import with_files


def render_verdict(
    verdict: Verdict, model: object, engine: Path, flags: Sequence[str] = (), *, located: bool = False
) -> str:
    """The verdict, the next step, each output, how inputs were generated, and what was not run.

    model, engine, flags: for the command of the advice; of a model that is no file, it is exported first.
    located: whether the search for the faulty node follows, with advice of its own.
    """
    advice = "" if located else verdict.advice
    return "\n".join(_lines(verdict, with_files(advice, model, engine, flags)))


def render_comparisons(
    comparisons: Sequence[Comparison], statuses: Mapping[str, str] | None = None, told: str = ""
) -> str:
    """Renders a table with a row for each output.

    statuses: by output, where it is more than what its comparison says. told: text above the table, whose reasons are not
    repeated.
    """
    header = ("output", "shape", "relative", "max", "mean", "p99", "cosine", "worst at", "")
    rows = [header, *(_row(c, (statuses or {}).get(c.output, AGREE), told) for c in comparisons)]
    if any(c.at for c in comparisons):
        rows = [(at, *row) for at, row in zip(["", *(c.at for c in comparisons)], rows, strict=True)]
    return table(rows)


def _lines(verdict: Verdict, advice: str) -> Iterator[str]:
    reason = verdict.reason
    yield f"verdict: {verdict.words}: {one_line(reason)} (inputs: {one_line(verdict.inputs)})"
    if advice:
        yield f"next: {one_line(advice)}"
    if verdict.comparisons:
        yield render_comparisons(verdict.comparisons, verdict.outputs, reason)
    yield from (f"input {one_line(sentence)}" for sentence in verdict.meanings)
    left = (one for one in verdict.left_out if one.accepted or one.why not in reason)
    yield from (f"{one_line(one.why)}{'; accepted' if one.accepted else ''}" for one in left)
    yield from map(one_line, verdict.references)
    yield from map(one_line, verdict.cost.lines() if verdict.cost is not None else ())
    if verdict.precision:
        yield verdict.precision
    if verdict.told_run:
        yield one_line(verdict.told_run)


def _row(c: Comparison, status: str, told: str) -> tuple[str, ...]:
    # of another shape, or where nothing is finite, there are no figures
    measured = bool(c.compared) and (c.agrees or bool(c.relative or c.max))
    numbers = [f"{value:.2e}" if measured else "-" for value in (c.relative, c.max, c.mean, c.p99)]
    pair = "" if c.expected is None else f": {c.actual:.6g}, expected {c.expected:.6g}"
    worst = ",".join(map(str, c.worst))
    shape = "x".join(map(str, c.shape))
    said = "agrees" if status in (AGREE, DISAGREE) else status
    if not c.agrees:
        said = "disagrees" if c.reason in told else c.reason
    return (c.output, shape, *numbers, f"{c.cosine:.6f}" if measured else "-", worst + pair, said)
