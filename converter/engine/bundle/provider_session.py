"""Writes the Python lines that open a graph of `rewrite --for onnxruntime` in onnxruntime's TensorRT provider.

TensorRT 10 may be slow at operators whose outputs depend on the data. onnxruntime 1.20 left them to CUDA, and later ones
let the user do so (microsoft/onnxruntime, pull requests 22875 and 23705). Option names:
onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html. The provider asks TensorRT's plugin
registry, which Python's tensorrt has loaded a library into: both use the one libnvinfer of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, suggest
from trtsmith.converter.engine.bundle.engine_facts import REGISTERING
from trtsmith.converter.graph.walk import all_graphs

_MAY_BE_SLOW = frozenset(("NonMaxSuppression", "NonZero", "RoiAlign"))


def slow_operators(graph: onnx.GraphProto) -> list[str]:
    """Returns the operators of the graph at which TensorRT may be slower than onnxruntime's CUDA provider."""
    return sorted({n.op_type for one in all_graphs(graph) for n in one.node if not n.domain} & _MAY_BE_SLOW)


def session_lines(
    graph: Path,
    libraries: Sequence[Path],
    shapes: Mapping[str, ShapeRange],
    inputs: Sequence[InputSpec] = (),
    slow: Sequence[str] = (),
) -> str:
    """Loads the plugin libraries and opens the graph, with the optimization profile of `shapes`.

    inputs: the graph's; for dynamic ones that `shapes` lacks a comment says how they come into the profile.
    slow:   operators of the graph (slow_operators); a comment says who runs them.
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
    option = f"'trt_op_types_to_exclude': {','.join(slow)!r}"
    to_cuda = f"CUDA may be faster: the option {option}; onnxruntime 1.20 always takes it."
    other_way = f"# Without tensorrt: the option 'trt_extra_plugin_lib_paths': './{REGISTERING}' (docs/guides/deploy.md)."
    return "\n".join(
        (
            "import onnxruntime",
            *(("import tensorrt", "", *load, other_way) if load else ("",)),
            *((f"{no_profile} {flags}",) if unknown else ()),
            *((f"# TensorRT runs {' and '.join(slow)}. {to_cuda}",) if slow else ()),
            f"providers = {[provider, 'CUDAExecutionProvider']}",
            f"session = onnxruntime.InferenceSession({str(graph)!r}, providers=providers)",
        )
    )
