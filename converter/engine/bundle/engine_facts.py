"""Reads from an engine's manifest what the configuration of a server needs, and says what `bundle` gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_request import EngineTensor, Profile
from trtsmith.converter.engine.bundle.manifest import items, profiles, read_manifest, tensors, text
from trtsmith.converter.engine.bundle.run_from_bundle import (
    Manifest,
    checked_manifest,
    manifest_of,
    without_manifest,
)

REGISTERING = "libregister_plugins.so"
"""The library of docs/guides/deploy.md, which registers ours where a program opens it with dlopen."""

REGISTERING_NOTE = (
    f"{REGISTERING} registers the plugins: docs/guides/deploy.md says how to compile it, for TRTSMITH_PLUGINS"
)


@dataclass(frozen=True)
class BundledEngine:
    """What `bundle` wrote for a server.

    path:    Triton's folder of the model, DeepStream's configuration, or onnxruntime's model. engine: that the server loads.
    batch:   the largest batch, 0 if requests are not joined. command: starts the server, or opens a session.
    files:   all that were written or copied.
    """

    path: Path
    engine: Path
    batch: int
    command: str
    notes: tuple[str, ...]
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Facts:
    """The parts of a manifest that a server needs. made: what running the engine needs.

    Types are the engine's, or of TensorRT-RTX the model's: trtsmith's Runner runs those, and casts.
    """

    made: Manifest
    inputs: tuple[EngineTensor, ...]
    outputs: tuple[EngineTensor, ...]
    profiles: tuple[Mapping[str, Profile], ...]
    plugins: tuple[str, ...]

    @property
    def is_rtx(self) -> bool:
        """Whether TensorRT-RTX runs it, which most servers do not have."""
        return self.made.flavour != "tensorrt"


def _facts(document: Mapping[str, Any]) -> Facts:
    facts = Facts(
        made=manifest_of(document),
        inputs=tensors(document["inputs"]),
        outputs=tensors(document["outputs"]),
        profiles=profiles(document["profiles"]),
        plugins=tuple(map(text, items(document["plugins"]))),
    )
    if not facts.is_rtx:
        return facts
    before = {io.name: io.before for io in facts.made.io_types}
    inputs, outputs = (
        tuple(replace(tensor, dtype=before.get(tensor.name, tensor.dtype)) for tensor in ends)
        for ends in (facts.inputs, facts.outputs)
    )
    return replace(facts, inputs=inputs, outputs=outputs)


def read_facts(engine: Path) -> Facts:
    """Reads the manifest beside the engine. UsageError if there is none, or if it is another engine's."""
    checked_manifest(engine)
    facts = read_manifest(engine, _facts)
    if facts is None:
        raise without_manifest(engine)
    return facts


def tensorrt_facts(engine: Path, server: str, otherwise: str = "") -> Facts:
    """`read_facts` for a server that runs TensorRT's engines only, and none that holds code of the host.

    otherwise: what helps instead of another engine, for messages.
    """
    facts = read_facts(engine)
    if facts.is_rtx:
        fix = f"trtsmith convert ... --flavour tensorrt, on the GPU that runs it{otherwise}"
        raise UsageError(
            f"{server} runs no engine of TensorRT-RTX", str(engine), "an engine of TensorRT", fix
        )
    if facts.plugins and facts.made.embedded:
        what = f"{server} does not load the plugin libraries inside an engine"
        fix = "trtsmith convert ... without --embed-plugins"
        raise UsageError(what, str(engine), "an engine with its plugin libraries beside it", fix)
    return facts
