"""Holds a user's request for element types: --precision, --keep-fp32, --io-precision, --float-lstm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from trtsmith.converter.base.arrays import ArraySource
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.option_values import check_values
from trtsmith.converter.base.options.kinds import KINDS, Flag
from trtsmith.converter.engine.bundle.origin import EngineOrigin
from trtsmith.converter.rewrite.precision.formats import FORMATS, Format
from trtsmith.converter.rewrite.precision.sums import ACCUMULATE
from trtsmith.converter.rewrite.types import IoType
from trtsmith.converter.verify.rounding import engine_precision
from trtsmith.importers.problem import Problem

QUANTIZED = ("int8", "fp8")
"""Precisions that are calibrated."""

MIXED = tuple(f"{low}+{rest}" for low in QUANTIZED for rest in FORMATS)
"""Layers that are calibrated in 8 bits, and the others in 16."""

PRECISIONS = ("fp32", *FORMATS, *QUANTIZED, *MIXED)

_WITH = {
    "--keep-fp32": ("fp16", "bf16", "int8", "fp8"),
    "--keep-only": ("fp16", "bf16"),
    "--accumulate": ("fp16",),
    "--io-precision": ("fp16", "bf16", "fp32"),
    "--calibration": QUANTIZED,
    "--max-cost": QUANTIZED,
}
"""By flag, the precisions with which it means something."""


@dataclass(frozen=True)
class PrecisionRequest:
    """The user's precision options.

    precision:  "" leaves the types as the model has them. One of MIXED is taken apart: `beside` is the second type.
    beside:     of int8 and fp8, the type of what is not in 8 bits; "": float32.
    accumulate: "": auto.
    float_lstm: means something with any precision, and without one.
    keep_only:  whether `keep` is all that stays in float32 for the sake of accuracy.
    decided:    what an earlier reduction to fp16 or bf16 left in float32, by node, and why: it is done again.
    """

    TITLE: ClassVar[str] = "precision"

    precision: Annotated[
        str,
        Flag(
            "run layers in this type where accuracy allows; inputs and outputs keep their types. Default: the model's types",
            common=True,
            kind=KINDS["PrecisionName"],
        ),
    ] = ""
    keep: Annotated[
        tuple[str, ...],
        Flag(
            "keep nodes in float32: a name, a pattern such as '/head/*', or an operator; may be repeated",
            "NAME|OP",
            keyword="keep_fp32",
        ),
    ] = ()
    keep_only: Annotated[
        bool,
        Flag(
            "keep no other node in float32 for the sake of accuracy: neither sensitive operators nor values that leave the "
            "type's range on the inputs"
        ),
    ] = False
    accumulate: Annotated[
        str,
        Flag(
            "for fp16 with TensorRT-RTX, which sums float16 products in float16: keep no such sum in float32 (fp16), "
            "sums of more than 256 products (fp32), or as many as the accuracy of the outputs needs (auto, the default)",
            kind=KINDS["AccumulateName"],
        ),
    ] = ""
    float_lstm: Annotated[
        bool,
        Flag(
            "compute DynamicQuantizeLSTM as a float32 LSTM: one fast layer that does not round its input and state to "
            "8 bits. The missing rounding changes the results: by 0.001 to 0.7 of the largest value in the cases seen"
        ),
    ] = False
    io: Annotated[bool, Flag("convert float inputs and outputs to that type too", keyword="io_precision")] = (
        False
    )
    calibration: Annotated[
        tuple[ArraySource, ...],
        Flag(
            "samples to calibrate int8 and fp8 with; they lie along the first axis; default: --inputs; may be repeated",
            "NPZ",
            common=True,
            kind=KINDS["Samples"],
        ),
    ] = ()
    decided: Mapping[str, str] | None = None
    beside: str = ""

    def __post_init__(self) -> None:
        """Raises UsageError for unknown values, and for flags without effect in this precision."""
        check_values(
            ("--precision", self.precision, ("", *PRECISIONS)),
            ("--accumulate", self.accumulate, ("", *ACCUMULATE)),
        )
        if self.precision in MIXED:
            precision, beside = self.precision.split("+")
            object.__setattr__(self, "precision", precision)
            object.__setattr__(self, "beside", beside)
        self.check_meaning(
            {
                "--keep-fp32": self.keep,
                "--keep-only": self.keep_only,
                "--accumulate": self.accumulate,
                "--io-precision": self.io,
                "--calibration": self.calibration,
            }
        )

    def check_meaning(self, given: Mapping[str, object]) -> None:
        """Raises UsageError for given flags that have no effect in this precision. given: their values, by flag."""
        problems = []
        for flag, value in given.items():
            meaning = _WITH[flag]
            if (
                value
                and self.precision not in meaning
                and (flag != "--accumulate" or self.beside not in meaning)
            ):
                beside = f"with --precision {self.precision}" if self.precision else "without --precision"
                fix = f"add --precision {meaning[0]}, or remove {flag}"
                expected = f"--precision {', '.join(meaning)} beside it"
                problems.append(Problem(f"{flag} has no effect {beside}", flag, expected, fix))
        if problems:
            raise UsageError(problems)

    @property
    def settled(self) -> bool:
        """Whether it is known which nodes stay in float32: no run is asked."""
        return self.keep_only or self.decided is not None

    @property
    def format(self) -> Format | None:
        """The 16-bit type; None if nothing has it."""
        return FORMATS.get(self.beside or self.precision)


def engine_request(origin: EngineOrigin, io_types: Sequence[IoType]) -> PrecisionRequest:
    """Returns the precision request with which an engine was converted. io_types: inputs and outputs of changed type in its
    manifest.
    """
    did = origin.reduction
    if did is not None and did.own:
        return PrecisionRequest()
    precision = engine_precision(origin.precision)
    widened = did is not None and origin.precision in ("fp32", "float32")
    if precision not in (*FORMATS, *QUANTIZED):
        return PrecisionRequest("fp32" if widened else "", io=widened and _reach(io_types, "float32"))
    decided = None if did is None else {kept.node: kept.reason for kept in did.kept}
    io = precision in FORMATS and _reach(io_types, FORMATS[precision].name)
    return PrecisionRequest(precision, io=io, decided=decided)


def _reach(io_types: Sequence[IoType], dtype: str) -> bool:
    """Whether --io-precision was given, as inputs or outputs were floats of another type before."""
    floats = {"float16", "bfloat16", "float32"} - {dtype}
    return any(io.after == dtype and (io.before in floats or dtype != "float32") for io in io_types)
