"""Records a coverage run: the outcome of each case, sums by operator, and the report as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from onnxcoverage.builder import kind_of


@dataclass
class CaseOutcome:
    """The outcome of one case. Empty strings are good news.

    as_is, rewritten: why TensorRT does not build it. numbers: why its outputs are not ONNX's. by: what ran it.
    refused: trtsmith's own problems. met: names of the rules and custom operators of its rewrite.
    """

    name: str
    operator: str
    group: str
    as_is: str = "not run"
    rewritten: str = "not run"
    numbers: str = "not run"
    by: str = ""
    changed: bool = False
    told: bool = False
    frozen: Sequence[str] = ()
    met: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refused: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """Whether the case builds and is right. Cases without tensors also pass if refused with a complete message."""
        good = not (self.rewritten or self.numbers)
        if self.group != "tensors" and not good:
            return bool(self.refused) and not any(text.startswith("INCOMPLETE") for text in self.refused)
        return good

    @property
    def needless(self) -> bool:
        """Whether the case was rewritten although TensorRT takes it unchanged. Not if the rewrite reports what TensorRT does
        silently, such as narrowing float64, or states its reason, such as TensorRT's wrong triangle for Trilu.
        """
        return self.changed and not self.as_is and not self.told

    @property
    def reason(self) -> str:
        """The reason why the case does not pass."""
        if self.passed:
            return ""
        if self.group != "tensors":
            return "not refused" if not self.refused else self.refused[0]
        if self.rewritten:
            return self.rewritten
        return f"wrong: {self.numbers}"


def to_json(outcomes: Sequence[CaseOutcome], versions: Mapping[str, str], seconds: float) -> dict[str, Any]:
    tensors = [o for o in outcomes if o.group == "tensors"]
    return {
        "versions": dict(versions),
        "seconds": round(seconds, 1),
        "summary": {
            "cases": len(outcomes),
            "about_tensors": len(tensors),
            "built_as_is": sum(not o.as_is for o in tensors),
            "built_rewritten": sum(not o.rewritten for o in tensors),
            "passed": sum(o.passed for o in tensors),
            "rewritten_needlessly": sum(o.needless for o in outcomes),
            "others": len(outcomes) - len(tensors),
            "others_passed": sum(o.passed for o in outcomes if o.group != "tensors"),
            "crashes_or_hangs": sum(
                any(text.startswith(("crashes", "hangs")) for text in (o.rewritten, o.numbers))
                for o in outcomes
            ),
        },
        "cases": [asdict(o) | {"passed": o.passed} for o in outcomes],
    }


def outcomes_of(record: Mapping[str, Any]) -> list[CaseOutcome]:
    """The outcomes in a record that was read back."""
    names = {one.name for one in fields(CaseOutcome)}
    return [CaseOutcome(**{k: v for k, v in case.items() if k in names}) for case in record["cases"]]


def operator_rows(outcomes: Sequence[CaseOutcome]) -> list[tuple[str, int, int, int, int]]:
    """(operator, cases, built unchanged, built after rewriting, passed), for cases about tensors."""
    groups: dict[str, list[CaseOutcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.group == "tensors":
            groups[outcome.operator].append(outcome)
    return [
        (op, len(g), sum(not o.as_is for o in g), sum(not o.rewritten for o in g), sum(o.passed for o in g))
        for op, g in sorted(groups.items())
    ]


def render(outcomes: Sequence[CaseOutcome], summary: Mapping[str, Any]) -> str:
    """The report as text: operators that do not fully pass, the reasons by frequency, the sums."""
    lines = ["operator                        cases  as is  rewritten  passed"]
    rows = [row for row in operator_rows(outcomes) if row[4] < row[1]]
    lines += [f"{op:32}{n:5}{a:7}{r:11}{p:8}" for op, n, a, r, p in rows]
    reasons = Counter((o.operator, kind_of(o.reason)) for o in outcomes if not o.passed)
    lines += ["", "reasons"]
    lines += [f"{n:5}  {op}: {text}" for (op, text), n in reasons.most_common()]
    lines += [f"rewritten although it builds as it is: {o.name}" for o in outcomes if o.needless]
    lines += ["", "  ".join(f"{name}: {value}" for name, value in summary.items())]
    return "\n".join(lines)
