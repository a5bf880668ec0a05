"""Gives the verdict on a set of comparisons: only agreement is a pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.verify.compare import NOTHING_FINITE, Comparison

RAN = ("graphs", "original", "nothing")
"""The graph from which the engine is built, and where it is compared with it the original; that alone; neither."""


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison.

    status:     "agree", "disagree" or "not comparable"; only `agree` is a pass.
    reason:     one sentence.
    engine_run: whether the engine itself was run, or only the graphs from which it is built.
    inputs:     where the inputs come from.
    comparisons: of each output, and of each set of inputs.
    meanings:   what made-up inputs were taken for, one sentence for each.
    excluded:   outputs that were not compared, one sentence for each: those that random numbers decide.
    precision:  what the default tolerance of an engine's outputs assumes; "" where no engine was run.
    not_run:    why the engine was not run; "" where it was.
    warnings:   what the user should know of the engine and its run, one sentence each.
    ran:        what was run of the two graphs: one of RAN.
    references: what is to be known of the reference, one sentence each: which of onnxruntime's two runs it is, and of which
        operators our own definition stands for onnxruntime's.
    """

    status: str
    reason: str
    engine_run: bool
    inputs: str
    comparisons: tuple[Comparison, ...] = ()
    meanings: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    precision: str = ""
    not_run: str = ""
    warnings: tuple[str, ...] = ()
    ran: str = "graphs"
    references: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the outputs agree."""
        return self.status == "agree"

    def to_json(self) -> dict[str, Any]:
        """The verdict in JSON's types, which have neither infinity nor NaN: a relative error against zeros is null."""
        document = asdict(self)
        for comparison in document["comparisons"]:
            for name in ("relative", "expected", "actual"):
                value = comparison[name]
                if value is not None and not math.isfinite(value):
                    comparison[name] = None if name == "relative" else str(value)
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Verdict:
        """The verdict of which `to_json` made this. KeyError, TypeError or ValueError for anything else."""
        values = dict(document)
        values["comparisons"] = tuple(_comparison(one) for one in values["comparisons"])
        for name in ("meanings", "excluded", "warnings", "references"):
            values[name] = tuple(values.get(name, ()))
        return Verdict(**values)


def _comparison(document: Mapping[str, Any]) -> Comparison:
    values = dict(document)
    for name in ("shape", "worst"):
        values[name] = tuple(values[name])
    values["relative"] = math.inf if values["relative"] is None else values["relative"]
    for name in ("expected", "actual"):
        values[name] = None if values[name] is None else float(values[name])
    return Comparison(**values)


def judge(
    comparisons: tuple[Comparison, ...], inputs: str, *, engine_run: bool, excluded: Sequence[str] = ()
) -> Verdict:
    """The verdict on a set of comparisons. Nothing compared is not a pass.

    An output that has no finite element on either side is none of the comparisons: it joins those that were left out. Where
    the others agree the verdict is that they do, and says how many were left out.
    """
    nowhere = [c for c in comparisons if c.reason == NOTHING_FINITE]
    comparisons = tuple(c for c in comparisons if c.reason != NOTHING_FINITE)
    left_out = (*excluded, *map(_without_numbers, nowhere))

    def verdict(status: str, reason: str) -> Verdict:
        return Verdict(status, reason, engine_run, inputs, comparisons, excluded=left_out)

    wrong = [c for c in comparisons if not c.agrees]
    if wrong:
        places = (f"{c.output}{f' at {c.at}' if c.at else ''}: {c.reason}" for c in wrong)
        return verdict("disagree", "; ".join(places))
    if not comparisons:
        return verdict("not comparable", "; ".join(left_out) or "no output was compared")
    if not any(c.compared for c in comparisons):
        rest = "".join(f"; {sentence}" for sentence in left_out)
        return verdict("not comparable", f"every output {'that is left ' if left_out else ''}is empty{rest}")
    worst = max(c.relative for c in comparisons)
    count = f"; {len(left_out)} not comparable" if left_out else ""
    return verdict("agree", f"largest relative error {worst:.1e}{count}")


def _without_numbers(comparison: Comparison) -> str:
    at = f" at {comparison.at}" if comparison.at else ""
    return (
        f"output {comparison.output!r}{at} is not comparable: it is NaN or infinite everywhere, in the reference too; give "
        "inputs for which it is finite (--inputs FILE.npz)"
    )


def not_comparable(which: str, error: TrtsmithError, inputs: str, ran: str) -> Verdict:
    """The verdict where a graph cannot be run, with what would make it comparable. which: such as "original"."""
    problem = error.problems[0]
    return Verdict(
        "not comparable", f"the {which}: {problem.what.rstrip('.')}; {problem.fix}", False, inputs, ran=ran
    )
