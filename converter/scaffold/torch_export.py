"""Exports a function of PyTorch tensors to an ONNX function body with dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.scaffold.function_text import body_of_graph


def exported_body(
    function: Callable[..., Any],
    inputs: Mapping[str, tuple[Sequence[int], str]],
    outputs: Sequence[str],
) -> tuple[str, int]:
    """Exports a function of PyTorch tensors with all sizes dynamic. Returns (body, opset). Needs torch.

    function: of the tensors, in the order of `inputs`. inputs: (shape of an example, "float32" or another type) by name.
    Raises UsageError for operators without a fake implementation, and what the exporter raises.
    """
    import torch

    from trtsmith.importers.missing_fake import missing_fake
    from trtsmith.importers.torch_ops import export

    class Called(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    examples = tuple(
        torch.ones(tuple(shape), dtype=getattr(torch, dtype)) for shape, dtype in inputs.values()
    )
    any_size = torch.export.Dim.AUTO
    dynamic = tuple(dict.fromkeys(range(len(shape)), any_size) for shape, _ in inputs.values())
    with ScratchFolder("export") as folder:
        path = Path(folder) / "function.onnx"
        try:
            export(
                Called(),
                examples,
                path,
                dynamic_shapes=(dynamic,),
                input_names=[*inputs],
                output_names=[*outputs],
            )
        except Exception as error:
            problem = missing_fake(error, "the function")
            if problem is None:
                raise
            raise UsageError(problem) from error
        model = onnx.load(path)
    return body_of_graph(model, [*inputs], outputs)
