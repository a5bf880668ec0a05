"""Defines tolerances of outputs: by element type, and by --rtol and --atol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.option_values import check_values, is_cost
from trtsmith.converter.base.options.kinds import COST, TEXTS, Flag, texts_of
from trtsmith.converter.base.options.kinds import KINDS as OPTION_KINDS
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


def _table(given: Any, name: str) -> dict[str, float]:
    """By output, "" for all others, a number of a text, or of what Python gives. UsageError for none of at least 0."""
    if isinstance(given, Mapping):
        given = [f"{output}:{value}" for output, value in given.items()]
    elif not isinstance(given, Sequence) or isinstance(given, str):
        given = [] if given is None else [str(given)]
    table = {}
    for text in given:
        output, _, number = text.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            what, expected = f"{text!r} is not a tolerance", "a number >= 0, or OUTPUT:NUMBER"
            raise UsageError(what, f"--{name}", expected, f"--{name} 1e-3")
        table[output] = value
    return table


def _kinds(given: Any, name: str) -> dict[str, str]:
    """What outputs are compared as, by name. UsageError for what is none of KINDS."""
    texts = [f"{output}={kind}" for output, kind in given.items()] if isinstance(given, Mapping) else given
    kinds = {}
    for text in texts or ():
        output, _, kind = text.rpartition("=")
        if not output or kind not in KINDS:
            expected = f"OUTPUT=KIND, where KIND is one of: {', '.join(KINDS)}"
            what = f"{text!r} does not name an output and a kind of comparison"
            raise UsageError(what, f"--{name}", expected, f"--{name} output0=detections")
        kinds[output] = kind
    return kinds


TOLERANCE_BY_OUTPUT = replace(OPTION_KINDS["Tolerance"], read=_table)


@dataclass(frozen=True)
class Tolerances:
    """The values of --rtol and --atol, each `VALUE` or `OUTPUT:VALUE`: |result - reference| <= atol + rtol * |reference|.

    not_compared: outputs of which the user accepts that they cannot be compared.
    kinds: what outputs are compared as, by name: one of KINDS.
    max_cost: what int8 and fp8 may change of an output of the original; None: anything.
    """

    TITLE: ClassVar[str] = "verdict"

    rtol: Annotated[
        Mapping[str, float], Flag("relative tolerance", "[OUT:]X", common=True, kind=TOLERANCE_BY_OUTPUT)
    ] = field(default_factory=dict)
    atol: Annotated[
        Mapping[str, float], Flag("absolute tolerance", "[OUT:]X", common=True, kind=TOLERANCE_BY_OUTPUT)
    ] = field(default_factory=dict)
    not_compared: Annotated[
        frozenset[str],
        Flag(
            "accept that this output cannot be compared; may be repeated",
            "OUT",
            kind=replace(TEXTS, read=lambda given, name: frozenset(texts_of(given))),
        ),
    ] = frozenset()
    kinds: Annotated[
        Mapping[str, str],
        Flag(
            f"how to compare an output, if the graph does not show it: {', '.join(KINDS)}; may be repeated",
            "OUT=KIND",
            kind=replace(OPTION_KINDS["Mapping[str, str]"], read=_kinds),
            keyword="compare",
        ),
    ] = field(default_factory=dict)
    max_cost: Annotated[
        float | None,
        Flag(
            "how much int8 or fp8 may change any output, such as 0.05; more gives exit code 3",
            "X",
            kind=COST,
        ),
    ] = None

    def __post_init__(self) -> None:
        check_values(("--max-cost", self.max_cost, is_cost))

    def __bool__(self) -> bool:
        """Whether the user gave any number."""
        return bool(self.rtol or self.atol)

    def of(self, output: str) -> tuple[float, float] | None:
        """Returns (rtol, atol) for an output; None if neither was given for it, and TOLERANCE holds."""
        rtol, atol = (table.get(output, table.get("")) for table in (self.rtol, self.atol))
        return None if rtol is None and atol is None else (rtol or 0.0, atol or 0.0)

    def check_outputs(self, outputs: Sequence[str]) -> None:
        """Raises UsageError for an output that the model lacks."""
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
    """Parses the flags. Raises UsageError for a value that is not a non-negative number, or an unknown comparison."""
    tables = _table(rtol, "rtol"), _table(atol, "atol")
    return Tolerances(*tables, frozenset(not_compared), _kinds(compare, "compare"), max_cost)
