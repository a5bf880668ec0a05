"""Writes the Python lines that open a graph of `rewrite --for onnxruntime` in onnxruntime's TensorRT provider.

Option names: onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html. The provider asks TensorRT's plugin
registry, which Python's tensorrt has loaded a library into: both use the one libnvinfer of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, suggest
from trtsmith.converter.engine.bundle.engine_facts import REGISTERING


def session_lines(
    graph: Path,
    libraries: Sequence[Path],
    shapes: Mapping[str, ShapeRange],
    inputs: Sequence[InputSpec] = (),
) -> str:
    """Loads the plugin libraries and opens the graph, with the optimization profile of `shapes`.

    inputs: the graph's; for dynamic ones that `shapes` lacks a comment says how they come into the profile.
    """
    options = {
        f"trt_profile_{end}_shapes": ",".join(
            f"{name}:{'x'.join(map(str, getattr(sizes, end)))}" for name, sizes in shapes.items()
        )
        for end in ("min", "opt", "max")
        if shapes
    }
    unknown = [spec for spec in inputs if None in spec.shape and spec.name not in shapes]
    flags = " ".join(f"--shapes {suggest(spec, inputs, shapes)}" for spec in unknown)
    no_profile = (
        "# Without a profile the provider builds an engine again for each size that is new to it: add"
    )
    provider = ("TensorrtExecutionProvider", options) if options else "TensorrtExecutionProvider"
    load = [f"tensorrt.get_plugin_registry().load_library({str(path)!r})" for path in libraries]
    other_way = f"# Without tensorrt: the option 'trt_extra_plugin_lib_paths': './{REGISTERING}' (docs/guides/deploy.md)."
    return "\n".join(
        (
            "import onnxruntime",
            *(("import tensorrt", "", *load, other_way) if load else ("",)),
            *((f"{no_profile} {flags}",) if unknown else ()),
            f"providers = {[provider, 'CUDAExecutionProvider']}",
            f"session = onnxruntime.InferenceSession({str(graph)!r}, providers=providers)",
        )
    )
