"""Lists what a search may choose: precisions, nodes that stay in float32, TensorRT's own import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trtsmith.converter.base.arrays import ArraySource
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import QUANTIZED, PrecisionRequest
from trtsmith.converter.convert.recipe import Choices
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.precision.keep import Kept
from trtsmith.converter.rewrite.precision.report import short_reason
from trtsmith.converter.tune.search import Move, Repair
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import Arrays


@dataclass(frozen=True)
class ReducedNetwork:
    """The network in a 16-bit type, by its nodes.

    kept: nodes that `convert` keeps in float32 for the sake of accuracy. units: nodes that are in the type if none is kept.
    """

    precision: str
    kept: tuple[Kept, ...]
    units: tuple[str, ...]

    @staticmethod
    def of(analysis: Analysis, precision: str, feeds: Arrays | None, *, given: bool) -> ReducedNetwork:
        """UsageError or ConversionError where the network cannot be brought into the type."""
        usual = in_precision(analysis.plain, PrecisionRequest(precision), feeds, given=given).precision
        trusting = in_precision(analysis.plain, PrecisionRequest(precision, keep_only=True))
        forced = {kept.node for kept in trusting.precision.kept} if trusting.precision is not None else set()
        kept = tuple(k for k in usual.kept if k.node not in forced) if usual is not None else ()
        elem = FORMATS[precision].elem
        # as the precision phase names them: rules behind it write others
        graph = trusting.model if trusting.typed is None else trusting.typed
        units = tuple(
            node.name
            for node in Graph(graph).root.nodes
            if node.op_type not in ("Cast", "Constant")
            and any(node.scope.elem_type(name) == elem for name in node.outputs)
        )
        return ReducedNetwork(precision, kept, units)

    def explicit(self, choices: Choices) -> Choices:
        """The same engine, whatever inputs it is made with: the nodes that stay in float32 are listed."""
        if choices.precision != self.precision or choices.keep_only:
            return choices
        return replace(choices, keep_fp32=tuple(kept.node for kept in self.kept), keep_only=True)

    def moves(self, choices: Choices) -> list[Move[Choices]]:
        """Each takes one reason away for which nodes stay in float32; or, if there is one only, one operator."""
        kept = set(self.explicit(choices).keep_fp32)
        groups: dict[str, list[Kept]] = {}
        for one in self.kept:
            if one.node in kept:
                groups.setdefault(short_reason(one.reason), []).append(one)
        if len(groups) == 1:
            ((reason, only),) = groups.items()
            groups = {}
            for one in only:
                groups.setdefault(f"{reason}, {one.op_type}", []).append(one)
        return [self._without(reason, [one.node for one in nodes]) for reason, nodes in groups.items()]

    def _without(self, reason: str, nodes: Sequence[str]) -> Move[Choices]:
        gone = set(nodes)

        def change(choices: Choices) -> Choices:
            listed = self.explicit(choices)
            return replace(listed, keep_fp32=tuple(one for one in listed.keep_fp32 if one not in gone))

        count = counted(len(gone), "node")
        return Move(
            f"{count} in {self.precision} that stayed in float32 ({reason})", change, float(len(gone))
        )

    def repair(self, choices: Choices) -> Repair[Choices]:
        """The fewest nodes in float32 with which the error is within the bound."""

        def accurate(start: Choices, units: Sequence[str]) -> Choices:
            return replace(start, keep_fp32=tuple(units), keep_only=True)

        return Repair(choices, self.units, accurate)


PRECISIONS: Mapping[str, str] = {
    "fp16": "float16 where accuracy allows, as `convert --precision fp16` decides it",
    "fp32": "the model's own types, float32 products in TF32",
    "bf16": "bfloat16, which has float32's range and fewer digits than float16",
    "int8": "8-bit integers, calibrated with --samples",
    "fp8": "8-bit floats, calibrated with --samples",
}
"""The types of the first engines, each with the reason to try it."""


def bases(precisions: Sequence[str], *, as_is: bool) -> dict[Choices, str]:
    """The first engines, each with the reason to try it. as_is: whether TensorRT imports the model by itself."""
    found = {Choices("" if name == "fp32" else name): PRECISIONS[name] for name in precisions}
    if as_is:
        found[Choices(as_is=True)] = "TensorRT's own import, which the result may not be slower than"
    return found


def applied(choices: Choices, options: ConvertOptions, samples: tuple[ArraySource, ...]) -> ConvertOptions:
    """The options with the choices among them, as `convert --recipe` reads them. samples: to calibrate 8 bits with."""
    calibration = samples if choices.precision in QUANTIZED else ()
    level = choices.optimization_level
    return replace(
        options,
        precision=PrecisionRequest(
            choices.precision, choices.keep_fp32, choices.keep_only, calibration=calibration
        ),
        as_is=choices.as_is,
        optimization_level=options.optimization_level if level is None else level,
    )
