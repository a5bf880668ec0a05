"""Describes a build to the process that makes it: plain data that comes back the same from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from trtsmith.converter.base.options.kinds import FLAVOUR, IN_PYTHON, MEBIBYTES, NUMBER, TARGETS, Flag
from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.importers.fields import FieldValue

OPTIMIZATION_LEVELS = range(6)
"""Of the builder: 0 builds fastest, 5 searches longest."""


PARSING, BUILDING = "parsing the model", "building the engine"
GRAPH_PHASES = frozenset({PARSING, BUILDING})
"""Steps of a build that depend on the graph; a child announces them."""


@dataclass(frozen=True)
class PluginUse:
    """One node that becomes a plugin layer, with every field that its creator takes.

    partial: whether fields may be left to the creator's own defaults, as plugins of others have them.
    """

    node: str
    name: str
    version: str
    namespace: str
    fields: tuple[FieldValue, ...]
    partial: bool = False


@dataclass(frozen=True)
class Profile:
    """The sizes that one input may have: its dimensions, or the values of a shape-tensor input.

    values: whether they were meant as values, so that another input than a shape tensor is an error.
    """

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    values: bool = False


@dataclass(frozen=True, kw_only=True)
class BuilderOptions(PlainData):
    """Options of the builder, as the user gives them and as a request passes them on.

    layer_details: let the engine tell what each layer computes, for a profile; it is a little larger then.
    settings: of converter/engine/builder/deployment.py, by name.
    keep: whether the engine is wanted, and not only whether there can be one: it is not written then.
    """

    TITLE: ClassVar[str] = "engine"

    targets: Annotated[
        tuple[str, ...],
        Flag(
            "GPUs to build for: sm86,sm89, or rtx3090,l4; default: this machine's GPU, else sm86",
            "SM|GPU",
            common=True,
            kind=TARGETS,
            keyword="target",
        ),
    ] = ()
    flavour: Annotated[
        str,
        Flag(
            "which TensorRT; auto: tensorrt if it is installed and there is a GPU, else tensorrt_rtx",
            kind=FLAVOUR,
        ),
    ] = "auto"
    embed_plugins: Annotated[bool, Flag("store the plugin libraries in the engine file")] = False
    workspace: Annotated[int | None, Flag("limit of TensorRT's workspace in MiB", "MIB", kind=MEBIBYTES)] = (
        None
    )
    timing_cache: Annotated[
        Path | None, Flag("file with timings of earlier builds, read and updated", "FILE")
    ] = None
    optimization_level: Annotated[
        int | None,
        Flag(
            "0 builds fastest, 5 searches longest",
            "0-5",
            "--optimization-level",
            "--builder-optimization-level",
            "--builderOptimizationLevel",
            kind=NUMBER,
            choices=OPTIMIZATION_LEVELS,
        ),
    ] = None
    layer_details: Annotated[bool, IN_PYTHON] = False
    timeout_s: Annotated[float | None, Flag("time limit of the build", "SECONDS", keyword="timeout")] = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False
    keep: bool = True


@dataclass(frozen=True)
class BuildRequest(BuilderOptions):
    """One engine to build.

    profiles: per optimization profile, the sizes by input name; () for a model whose inputs are all fixed.
    log_path: where the build's log is to be kept; None to drop it after a success.
    """

    onnx_path: Path
    engine_path: Path
    plugin_libraries: tuple[Path, ...] = ()
    plugins: tuple[PluginUse, ...] = ()
    profiles: tuple[Mapping[str, Profile], ...] = ()
    log_path: Path | None = None


@dataclass(frozen=True)
class EngineTensor:
    """An input or output of the engine. dtype as numpy names it (bfloat16 too); -1 is a dynamic dimension."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    mode: str
    is_shape_tensor: bool = False


@dataclass(frozen=True)
class BuildResult(PlainData):
    """A built engine. size in bytes, seconds of the whole build, layers of the parsed network."""

    engine_path: Path
    size: int
    seconds: float
    flavour: str
    version: str
    targets: tuple[str, ...]
    inputs: tuple[EngineTensor, ...]
    outputs: tuple[EngineTensor, ...]
    layers: int
    plugin_layers: tuple[str, ...]
    warnings: tuple[str, ...] = field(default=())
