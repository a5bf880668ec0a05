"""Holds the options of a conversion, and those of the analysis before it; imports no later stage."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, ClassVar

from trtsmith.converter.base.arrays import named_source
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.option_values import check_values, is_count, is_seconds, is_target
from trtsmith.converter.base.options.gpu_names import DEVICES
from trtsmith.converter.base.options.kinds import DEVICE, Flag
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.convert.analysis import AnalysisOptions
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.freezing import FreezingOptions
from trtsmith.converter.convert.opening import GivenModel, has_example
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.recipe import Recipe
from trtsmith.converter.convert.workarounds.refusals import Refusals
from trtsmith.converter.engine.builder.build_request import OPTIMIZATION_LEVELS, BuilderOptions
from trtsmith.converter.verify.given import without_inputs
from trtsmith.converter.verify.references import ExpectationOptions, check_one_expectation
from trtsmith.converter.verify.tolerances import Tolerances

MODES = ("auto", "graph", "engine")
"""auto: the engine too, if this machine's GPU is one of those that it was built for."""


_OF_DEVICE = frozenset(
    {
        "targets",
        "flavour",
        "workspace",
        "optimization_level",
        "layer_details",
        "settings",
    }  # trtexec gets them
    | {"verbose", "timeout_s", "keep"}  # of a build here, which there is none of
)
"""Of BuilderOptions, those that go with --bundle-for; any other is refused by name."""

_NOT_PASSED_ON = ("strip_plan", "memory_pool_limit", "tactic_sources", "hardware_compatibility_level")
"""Settings that the device's trtexec does not get: it compares nothing without weights, and spells the others otherwise."""


@dataclass(frozen=True, kw_only=True)
class PluginOptions:
    """The plugins that may replace nodes."""

    TITLE: ClassVar[str] = "engine"

    plugins: Annotated[tuple[Path, ...], Flag("a plugin library {}; may be repeated", "LIB")] = ()
    prefer_stock: Annotated[
        bool, Flag("use TensorRT's own plugins, even for nodes that trtsmith has a plugin for")
    ] = False


@dataclass(frozen=True, kw_only=True)
class FormOptions:
    """The form of the graph."""

    TITLE: ClassVar[str] = "engine"

    as_is: Annotated[
        bool, Flag("leave the nodes as they are: TensorRT's own import, to compare with; without plugins")
    ] = False


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """The device for which a folder is written instead of an engine.

    bundle_for: one of DEVICES, or "" for an engine.
    plugins_aarch64: a wheel of trtsmith with the plugin libraries for it; None: this installation's.
    """

    TITLE: ClassVar[str] = "engine"

    bundle_for: Annotated[
        str,
        Flag(
            "build nothing here: write a folder from which the device builds, runs and compares the engine "
            f"({', '.join(DEVICES)})",
            "DEVICE",
            kind=DEVICE,
        ),
    ] = ""
    plugins_aarch64: Annotated[
        Path | None,
        Flag("with --bundle-for: a wheel of trtsmith for aarch64, for its plugin libraries", "WHEEL"),
    ] = None


@dataclass(frozen=True)
class ConvertOptions(
    FreezingOptions, BuilderOptions, PluginOptions, FormOptions, DeviceOptions, ExpectationOptions
):
    """The options of `trtsmith convert`, `check` and `rewrite`. Paths are as the user gave them.

    output: the engine's file; None: the engine is given back as bytes, and nothing is written.
    more_shapes: of the optimization profiles after the first.
    verify: MODES; None: compare nothing.
    refusals: what is done where TensorRT refuses the graph. keep: without it there must be no output and no comparison, and
        `engine` of the result is empty.
    force: whether existing files are replaced that are not of an earlier conversion of the model.
    recipe: where the choices among them come from; None: from the user.
    """

    model: GivenModel
    output: Path | None
    shapes: dict[str, ShapeRange] = field(default_factory=dict)
    more_shapes: tuple[dict[str, ShapeRange], ...] = ()
    values: dict[str, ShapeRange] = field(default_factory=dict)
    tolerances: Tolerances | None = None
    verify: str | None = "auto"
    precision: PrecisionRequest = field(default_factory=PrecisionRequest)
    refusals: Refusals = field(default_factory=Refusals)
    force: bool = False
    recipe: Recipe | None = None

    def __post_init__(self) -> None:
        check_values(
            ("--verify", self.verify, MODES),
            *(("--target", target, is_target) for target in self.targets),
            ("--workspace", self.workspace, is_count),
            ("--optimization-level", self.optimization_level, OPTIMIZATION_LEVELS),
            ("--timeout", self.timeout_s, is_seconds),
            ("--bundle-for", self.bundle_for, ("", *DEVICES)),
        )
        if self.bundle_for:
            self._check_device()
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
        if expected and self.inputs is None and not has_example(self.model):
            raise without_inputs(expected)

    def builder(self) -> BuilderOptions:
        """Returns the builder's options, with the named device as the target."""
        asked = BuilderOptions(**{one.name: getattr(self, one.name) for one in fields(BuilderOptions)})
        return replace(asked, targets=(DEVICES[self.bundle_for],)) if self.bundle_for else asked

    def _check_device(self) -> None:
        target = DEVICES[self.bundle_for]
        unsaid = BuilderOptions()
        wrong = {
            f"--target {','.join(self.targets)}": self.targets not in ((), (target,)),
            "--flavour tensorrt_rtx": self.flavour == "tensorrt_rtx",
            "--verify engine": self.verify == "engine",
            "--no-verify": self.verify is None,
            **{
                f"--{one.name.replace('_', '-')}": getattr(self, one.name) != getattr(unsaid, one.name)
                for one in fields(BuilderOptions)
                if one.name not in _OF_DEVICE
            },
            "an output in memory": self.output is None,
            "--profile": self.more_shapes,
            **{f"--{name.replace('_', '-')}": name in self.settings for name in _NOT_PASSED_ON},
        }
        if given := ", ".join(flag for flag, is_wrong in wrong.items() if is_wrong):
            raise UsageError(
                f"--bundle-for {self.bundle_for} prepares a build on the device, and does not go with {given}",
                f"--bundle-for {self.bundle_for}, {given}",
                f"a folder for TensorRT on {target}, with what its outputs are compared with",
                f"leave out {given}" if self.output is not None else "name a folder as the output",
            )


def analysis_options(options: ConvertOptions) -> AnalysisOptions:
    target = target_of(
        "tensorrt" if options.bundle_for else options.flavour, prefer_stock=options.prefer_stock
    )
    if options.bundle_for:  # its TensorRT is not this machine's, and neither is its GPU
        target = replace(target, version=(), compute_capability=None)
    return AnalysisOptions(
        target=target,
        freeze=options.freeze,
        inputs=options.inputs,
        plugins=options.plugins,
        precision=options.precision,
        as_is=options.as_is,
        profiles=(options.shapes, *options.more_shapes),
        values=(options.values,),
    )
