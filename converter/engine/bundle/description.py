"""Describes an engine by its manifest, without TensorRT, a GPU, or loading the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.build.build_request import EngineTensor, Profile
from trtsmith.converter.engine.bundle.manifest import io_types, profiles, read_manifest, tensors
from trtsmith.converter.engine.bundle.run_from_bundle import Manifest, checked_manifest
from trtsmith.converter.engine.runtime.tensors import TensorSpec
from trtsmith.converter.rewrite.types import IoType


@dataclass(frozen=True)
class EngineDescription:
    """What a manifest says of its engine. io_types: inputs and outputs that have another type in the model."""

    made: Manifest
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    profiles: int
    io_types: tuple[IoType, ...]


def describe_bundle(engine: Path, flavour: str = "auto") -> EngineDescription | None:
    """By the manifest; None where there is none.

    UsageError where the engine is missing, or is not the one that the manifest is about, or that is not to be read.
    """
    made = checked_manifest(engine, flavour)
    if made is None:
        return None
    return read_manifest(engine, lambda document: _description(document, made))


def _description(document: Mapping[str, Any], made: Manifest) -> EngineDescription:
    sizes = profiles(document.get("profiles", []))
    return EngineDescription(
        made,
        tuple(_spec(tensor, sizes, is_input=True) for tensor in tensors(document["inputs"])),
        tuple(_spec(tensor, (), is_input=False) for tensor in tensors(document["outputs"])),
        len(sizes),
        io_types(document.get("io_types", [])),
    )


def _spec(tensor: EngineTensor, sizes: tuple[dict[str, Profile], ...], *, is_input: bool) -> TensorSpec:
    """An input that is in no profile has one size, which its shape says."""
    allowed = tuple(one[tensor.name] for one in sizes if tensor.name in one)
    whole = len(allowed) == len(sizes)
    return TensorSpec(
        tensor.name, tensor.dtype, tensor.shape, is_input, tensor.is_shape_tensor, allowed if whole else ()
    )
