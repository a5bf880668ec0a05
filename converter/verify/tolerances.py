"""Defines tolerances of outputs: by element type, and by --rtol and --atol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.option_values import check_values, is_cost
from trtsmith.importers.problem import Problem

TOLERANCE: Mapping[str, float] = {
    "float64": 1e-4,
    "float32": 1e-4,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
}
"""||result - reference|| / ||reference|| allowed by output dtype when no --rtol or --atol is given.

float32: models.centernet_dcn amplifies rounding the most of our models; PyTorch and onnxruntime are each up to 5e-5 from
float64 there, and 7e-5 from each other. A wrong attribute or a swapped axis gives 1e-2 and more. float16 and bfloat16: two
roundings. float64 is judged as float32, in which TensorRT computes it. Integers and booleans must be equal.
"""


KINDS = ("rows", "detections", "ranking", "classes", "set", "values")
"""What an output may be compared as (trtsmith.converter.verify.meaning); "values": element by element."""


@dataclass(frozen=True)
class Tolerances:
    """What --rtol and --atol say, each `VALUE` or `OUTPUT:VALUE`: |result - reference| <= atol + rtol * |reference|.

    not_compared: outputs of which the user accepts that they cannot be compared (--not-compared).
    kinds: what outputs are compared as, by name: one of KINDS (--compare).
    max_cost: what int8 and fp8 may change of an output of the original (--max-cost); None: anything.
    """

    rtol: Mapping[str, float]
    atol: Mapping[str, float]
    not_compared: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)
    max_cost: float | None = None

    def __bool__(self) -> bool:
        """Whether the user gave any number."""
        return bool(self.rtol or self.atol)

    def of(self, output: str) -> tuple[float, float] | None:
        """(rtol, atol) for an output; None if neither was given for it, and TOLERANCE holds."""
        rtol, atol = (table.get(output, table.get("")) for table in (self.rtol, self.atol))
        return None if rtol is None and atol is None else (rtol or 0.0, atol or 0.0)

    def check_outputs(self, outputs: Sequence[str]) -> None:
        """UsageError for an output that the model has not."""
        named = [
            (name, f"{flag} {name}:{value:g}")
            for flag, table in (("--rtol", self.rtol), ("--atol", self.atol))
            for name, value in table.items()
            if name
        ]
        named += [(name, f"--not-compared {name}") for name in sorted(self.not_compared)]
        named += [(name, f"--compare {name}={kind}") for name, kind in self.kinds.items()]
        problems = [
            Problem(
                f"the model has no output {name!r}",
                flag,
                "one of: " + ", ".join(map(repr, outputs)),
                "correct the name",
            )
            for name, flag in named
            if name not in outputs
        ]
        if problems:
            raise UsageError(problems)


def parse_tolerances(
    rtol: Sequence[str] = (),
    atol: Sequence[str] = (),
    not_compared: Sequence[str] = (),
    compare: Sequence[str] = (),
    max_cost: float | None = None,
) -> Tolerances:
    """UsageError for what is not a non-negative number, or nothing that an output may be compared as."""
    check_values(("--max-cost", max_cost, is_cost))
    tables = []
    for flag, texts in (("--rtol", rtol), ("--atol", atol)):
        table = {}
        for text in texts:
            name, _, number = text.rpartition(":")
            try:
                value = float(number)
            except ValueError:
                value = -1.0
            if not 0 <= value < float("inf"):
                raise UsageError(
                    f"{text!r} is not a tolerance",
                    flag,
                    "a number >= 0, or OUTPUT:NUMBER",
                    f"{flag} 1e-3",
                )
            table[name] = value
        tables.append(table)
    kinds = {}
    for text in compare:
        name, _, kind = text.rpartition("=")
        if not name or kind not in KINDS:
            expected = f"OUTPUT=KIND, where KIND is one of: {', '.join(KINDS)}"
            what = f"{text!r} does not name an output and a kind of comparison"
            raise UsageError(what, "--compare", expected, "--compare output0=detections")
        kinds[name] = kind
    return Tolerances(tables[0], tables[1], frozenset(not_compared), kinds, max_cost)
