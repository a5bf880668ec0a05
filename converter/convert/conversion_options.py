"""Holds the options of a conversion, and those of the analysis before it; imports no later stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtsmith.converter.convert.analysis import AnalysisOptions
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.freezing import Freeze
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.workarounds.refusals import Refusals
from trtsmith.converter.engine.build.build_request import OPTIMIZATION_LEVELS
from trtsmith.converter.model.arrays import ArraySource, named_source
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.option_values import check_values, is_count, is_seconds, is_target
from trtsmith.converter.model.shapes import ShapeRange
from trtsmith.converter.verify.references import NO_REFERENCES, References, check_one_expectation
from trtsmith.converter.verify.tolerances import Tolerances

_AS_IT_IS = PrecisionRequest()
_LOOKED_INTO = Refusals()

MODES = ("auto", "graph", "engine")
"""auto: the engine too, if this machine's GPU is one of those that it was built for."""


@dataclass(frozen=True)
class ConvertOptions:
    """What `trtsmith convert`, `check` and `rewrite` are told. Paths are as the user gave them.

    output: the engine's file; None: the engine is given back as bytes, and nothing is written.
    more_shapes: of the optimization profiles after the first.
    verify: MODES; None: compare nothing.
    settings: of the builder, by name (converter/engine/build/deployment.py).
    refusals: what is done where TensorRT refuses the graph. keep: whether the engine is wanted; without it there must be no
        output and no comparison, and `engine` of the result is empty.
    """

    model: GivenModel
    output: Path | None
    shapes: dict[str, ShapeRange] = field(default_factory=dict)
    more_shapes: tuple[dict[str, ShapeRange], ...] = ()
    values: dict[str, ShapeRange] = field(default_factory=dict)
    freeze: Freeze = ()
    targets: tuple[str, ...] = ()
    flavour: str = "auto"
    plugins: tuple[Path, ...] = ()
    prefer_stock: bool = False
    inputs: ArraySource | None = None
    expected: ArraySource | None = None
    tolerances: Tolerances | None = None
    references: References = NO_REFERENCES
    verify: str | None = "auto"
    precision: PrecisionRequest = _AS_IT_IS
    embed_plugins: bool = False
    workspace_mib: int | None = None
    timing_cache: Path | None = None
    optimization_level: int | None = None
    layer_details: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    verbose: bool = False
    refusals: Refusals = _LOOKED_INTO
    keep: bool = True

    def __post_init__(self) -> None:
        check_values(
            ("--verify", self.verify, MODES),
            *(("--target", target, is_target) for target in self.targets),
            ("--workspace", self.workspace_mib, is_count),
            ("--optimization-level", self.optimization_level, OPTIMIZATION_LEVELS),
            ("--timeout", self.timeout_s, is_seconds),
        )
        priced = self.tolerances is not None and self.tolerances.max_cost is not None
        self.precision.check_meaning({"--max-cost": priced})
        if priced and self.verify is None:
            what = "--max-cost needs the comparison, which is turned off"
            where, fix = "--max-cost, --no-verify", "remove one of the two"
            raise UsageError(what, where, "--max-cost with a comparison", fix)
        if "strip_plan" in self.settings and self.verify == "engine":
            what, where = "an engine without its weights cannot be compared", "--strip-plan, --verify engine"
            raise UsageError(what, where, "a comparison of the graph", "--verify graph, or no --strip-plan")
        expected = "" if self.expected is None else named_source("--expected", self.expected)
        check_one_expectation(expected, self.references)


def analysis_options(options: ConvertOptions) -> AnalysisOptions:
    return AnalysisOptions(
        target=target_of(options.flavour, prefer_stock=options.prefer_stock),
        freeze=options.freeze,
        inputs=options.inputs,
        plugins=options.plugins,
        precision=options.precision,
        profiles=(options.shapes, *options.more_shapes),
        values=(options.values,),
    )
