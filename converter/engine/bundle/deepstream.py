"""Writes the configuration with which DeepStream's nvinfer runs an engine: an image in, raw outputs.

Keys: docs.nvidia.com/metropolis/deepstream/dev-guide/text/DS_plugin_gst-nvinfer.html. Paths count from the file's folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import check_report, write_text
from trtsmith.converter.base.own_files import NVINFER, NVINFER_HEAD
from trtsmith.converter.engine.builder.build_request import EngineTensor
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.engine_facts import (
    REGISTERING,
    REGISTERING_NOTE,
    BundledEngine,
    Facts,
    tensorrt_facts,
)


def write_nvinfer(engine: Path, output: Path | None = None, *, force: bool = False) -> BundledEngine:
    """Writes `config_infer_primary.txt` beside the engine, or the file `output`.

    UsageError for an engine that nvinfer does not run: one of TensorRT-RTX, or with other inputs than one image.
    """
    facts = tensorrt_facts(engine, "DeepStream")
    path = output or engine.with_name("config_infer_primary.txt")
    batch, *dims = _sizes(engine, facts)
    check_report(path, (engine, manifest_path(engine)), "-o", "the configuration", NVINFER, force=force)
    library = [f"custom-lib-path={REGISTERING}"] if facts.plugins else []
    lines = (
        NVINFER_HEAD,
        "[property]",
        f"model-engine-file={os.path.relpath(engine, path.parent)}",
        *library,
        f"batch-size={batch}",
        f"infer-dims={';'.join(map(str, dims))}",
        "# 100: outputs are attached raw, for a probe of yours. With a parser in custom-lib-path: 0 detector, 1 classifier,",
        "# 2 segmentation, 3 instance segmentation.",
        "network-type=100",
        "output-tensor-meta=1",
        "# As the network was trained: net-scale-factor * (pixel - offsets); 0 RGB, 1 BGR, 2 gray.",
        "net-scale-factor=1.0",
        "model-color-format=0",
    )
    write_text(path, "\n".join(lines) + "\n", "-o", "the configuration")
    notes = [
        f"DeepStream needs TensorRT {facts.made.version}, which built the engine",
        "the outputs are attached raw: a probe of yours parses them, or a parser that the configuration names",
        "net-scale-factor and model-color-format are nvinfer's defaults: set them as the network was trained",
    ]
    if library:
        notes.append(REGISTERING_NOTE)
    return BundledEngine(path, engine, batch, f"nvinfer config-file-path={path}", tuple(notes), (path,))


def _sizes(engine: Path, facts: Facts) -> tuple[int, ...]:
    """Largest batch, channels, height and width of the image. UsageError for other inputs."""
    images = [tensor for tensor in facts.inputs if _is_image(tensor)]
    if len(facts.inputs) != 1 or not images:
        said = ", ".join(f"{t.name!r} {t.dtype}{list(t.shape)}" for t in facts.inputs) or "none"
        what, expected = (
            f"nvinfer cannot feed the engine's inputs: {said}",
            "one float32 image [N, 1 or 3 or 4, H, W]",
        )
        raise UsageError(
            what, str(engine), expected, "let the model take such an image, or feed it in a program of yours"
        )
    shape = images[0].shape
    profile = facts.profiles[0].get(images[0].name) if facts.profiles else None
    usual, most = (profile.opt, profile.max) if profile is not None else (shape, shape)
    return most[0], *(known if known > 0 else size for known, size in zip(shape[1:], usual[1:], strict=True))


def _is_image(tensor: EngineTensor) -> bool:
    return tensor.dtype == "float32" and len(tensor.shape) == 4 and tensor.shape[1] in (1, 3, 4)
