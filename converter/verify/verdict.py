"""The verdict on a set of comparisons: only agreement is a pass."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from converter.verify.compare import Comparison


@dataclass(frozen=True)
class Verdict:
    """agree, disagree or not comparable; only `agree` is a pass.

    engine_run: whether the engine itself was run, or only the graphs from which it is built.
    """

    status: str
    reason: str
    engine_run: bool
    inputs: str
    comparisons: tuple[Comparison, ...] = ()

    @property
    def passed(self) -> bool:
        return self.status == "agree"

    def to_json(self) -> dict[str, Any]:
        """JSON has no infinity: a relative error against a reference of zeros is null there."""
        document = asdict(self)
        for comparison in document["comparisons"]:
            if not math.isfinite(comparison["relative"]):
                comparison["relative"] = None
        return document


def judge(comparisons: tuple[Comparison, ...], inputs: str, *, engine_run: bool) -> Verdict:
    """The verdict on a set of comparisons. Nothing compared is not a pass."""
    if not comparisons:
        return Verdict("not comparable", "no output was compared", engine_run, inputs)
    wrong = [c for c in comparisons if not c.agrees]
    if wrong:
        reason = "; ".join(f"{c.output}: {c.reason}" for c in wrong)
        return Verdict("disagree", reason, engine_run, inputs, comparisons)
    if all(c.reason == "empty" for c in comparisons):
        return Verdict("not comparable", "every output is empty", engine_run, inputs, comparisons)
    worst = max(c.relative for c in comparisons)
    return Verdict("agree", f"largest relative error {worst:.1e}", engine_run, inputs, comparisons)
