"""Runs the reference graph in Polygraphy: the original model in onnxruntime, with custom operators expanded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy import util
from polygraphy.backend.base import BaseRunner

from trtsmith.converter.polygraphy_extension.polygraphy_log import known, problems_logged
from trtsmith.converter.polygraphy_extension.whole_models import (
    metadata_of,
    model_file,
    to_polygraphy,
    to_types,
)


class TrtsmithReferenceRunner(BaseRunner):  # type: ignore[misc]  # Polygraphy has no types
    """Runs the reference of `trtsmith convert` and `trtsmith verify`: the model without rewrites for TensorRT.

    Custom operators that onnxruntime has not are made of standard ones, by their definitions.
    """

    def __init__(
        self,
        model: Any,
        freeze: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        packages: bool | None = None,
        name: str | None = None,
    ) -> None:
        """
        model:  a path, an onnx.ModelProto, or a callable that gives one of these.
        freeze: inputs that are given these values, as NAME=VALUE, and are none of the runner's.
        ops, packages: definitions of operators from outside, and whether those of installed packages count.
        """
        super().__init__(name=name, prefix="trtsmith-reference")
        self._model = model
        self._freeze = freeze
        self._ops = ops
        self._packages = packages

    @util.check_called_by("activate")  # type: ignore[untyped-decorator]
    def activate_impl(self) -> None:
        from trtsmith.converter.base.options.shapes import graph_inputs
        from trtsmith.converter.convert.freezing import parse_freeze
        from trtsmith.converter.model.load import load_model
        from trtsmith.converter.model.ort import open_session
        from trtsmith.converter.rewrite.rewrite import reference

        with problems_logged(), known(self._ops, self._packages), model_file(self._model) as path:
            original = load_model(path)
            self.frozen = parse_freeze(tuple(self._freeze or ()), original.proto)
            self.graph = reference(original)
            self.session = open_session(self.graph)
            self.inputs = {
                spec.name: (spec.dtype, spec.shape)
                for spec in graph_inputs(original.proto)
                if spec.name not in self.frozen
            }

    @util.check_called_by("get_input_metadata")  # type: ignore[untyped-decorator]
    def get_input_metadata_impl(self) -> Any:
        return metadata_of(self.inputs)

    @util.check_called_by("infer")  # type: ignore[untyped-decorator]
    def infer_impl(self, feed_dict: Mapping[str, Any]) -> Any:
        """Returns outputs by name; PyTorch tensors if the inputs are."""
        from trtsmith.converter.model.ort import run_session

        feeds = to_types(feed_dict, self.inputs) | self.frozen
        with problems_logged():
            start = time.perf_counter()
            outputs = run_session(self.session, self.graph, feeds)
            self.inference_time = time.perf_counter() - start
        return to_polygraphy(outputs, feed_dict)

    @util.check_called_by("deactivate")  # type: ignore[untyped-decorator]
    def deactivate_impl(self) -> None:
        del self.graph, self.session, self.inputs, self.frozen
