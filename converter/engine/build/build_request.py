"""Describes a build to the process that makes it: plain data that comes back the same from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtsmith.converter.model.process.plain_data import PlainData
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
    """What the builder is asked for, by the user and then by each request.

    targets:  ("sm86", "sm89"); () for the GPU that is there, else sm86.
    workspace: the limit of TensorRT's workspace, in MiB.
    layer_details: let the engine tell what each layer computes, for a profile; it is a little larger then.
    keep: whether the engine is wanted, and not only whether there can be one: it is not written then.
    settings: of converter/engine/build/deployment.py, by name.
    """

    targets: tuple[str, ...] = ()
    flavour: str = "auto"
    workspace: int | None = None
    timing_cache: Path | None = None
    embed_plugins: bool = False
    optimization_level: int | None = None
    layer_details: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False
    timeout_s: float | None = None
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
    """An engine that was built. size in bytes, seconds of the whole build, layers of the parsed network."""

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
