"""Loads ONNX models for Polygraphy: TensorRT's graph, and the same with expanded plugin nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polygraphy import util
from polygraphy.backend.base import BaseLoader

from trtsmith.converter.polygraphy_extension.polygraphy_log import (
    known,
    problems_logged,
    warn,
    with_polygraphys_flags,
)
from trtsmith.converter.polygraphy_extension.whole_models import model_file, whole_proto

if TYPE_CHECKING:
    import onnx

    from trtsmith.converter.base.options.kinds import FlavourName, PrecisionName
    from trtsmith.converter.model.model import Model


@dataclass(eq=False, repr=False)
class RewriteForTensorrt(BaseLoader):  # type: ignore[misc]  # Polygraphy has no types
    """Rewrites an ONNX model into the graph that TensorRT imports (`trtsmith rewrite`).

    model:     a path, an onnx.ModelProto, or a callable that gives one of these.
    flavour:   "tensorrt", "tensorrt_rtx", or None: that of which `trtsmith rewrite` would take.
    precision: "fp16", "bf16", "int8" or "fp8"; None: the types of the model.
    plugins:   paths of plugin libraries that will be there: a node of an operator that we do not know may be theirs.
    freeze:    inputs that become constants, as NAME=VALUE.
    ops, packages: definitions of operators from outside, and whether those of installed packages count.
    """

    model: Any
    flavour: FlavourName | None = None
    precision: PrecisionName | None = None
    plugins: Sequence[str] | None = None
    freeze: Sequence[str] | None = None
    ops: Sequence[str] | None = None
    packages: bool | None = None

    @util.check_called_by("__call__")  # type: ignore[untyped-decorator]
    def call_impl(self) -> onnx.ModelProto:
        """Returns the rewritten model. Warns of each node that prevents TensorRT's import."""
        import trtsmith

        with problems_logged(), model_file(self.model) as path:
            analysis = trtsmith.rewrite(
                path,
                flavour=self.flavour or "auto",
                precision=self.precision or "",
                freeze=tuple(self.freeze or ()),
                ops=tuple(self.ops or ()),
                plugins_from_packages=self.packages is not False,
            )
            for sentence in analysis.rewritten.warnings():
                warn(sentence)
            for problem in () if self.plugins else analysis.problems:
                warn(with_polygraphys_flags(f"TensorRT will not import this: {problem}"))
            return whole_proto(analysis.graph, str(path))


@dataclass(eq=False, repr=False)
class ExpandPluginNodes(BaseLoader):  # type: ignore[misc]
    """Expands plugin nodes into standard operators, with TensorRT's fields, so that onnxruntime runs the graph.

    As RewriteForTensorrt takes them.
    """

    model: Any
    ops: Sequence[str] | None = None
    packages: bool | None = None

    @util.check_called_by("__call__")  # type: ignore[untyped-decorator]
    def call_impl(self) -> onnx.ModelProto:
        """Returns the expanded model."""
        from trtsmith.converter.model.load import load_model
        from trtsmith.converter.rewrite.rewrite import expand, has_plugin_nodes

        with problems_logged(), known(self.ops, self.packages), model_file(self.model) as path:
            model = load_model(path)
            expanded = expand(model) if has_plugin_nodes(model) else model
            _check_known(expanded)
            return whole_proto(expanded, str(path))


def _check_known(model: Model) -> None:
    """Raises ConversionError for operators that onnxruntime lacks, where Polygraphy's runner would end with a traceback."""
    from trtsmith.converter.base.errors import ConversionError
    from trtsmith.converter.graph.graph import Graph
    from trtsmith.converter.rewrite.rewrite import onnxruntime_runs
    from trtsmith.importers.problem import Problem
    from trtsmith.importers.registry import normalise_domain

    functions = {(normalise_domain(f.domain), f.name) for f in model.proto.functions}
    unknown = [
        f"{domain}::{name}" if domain else name
        for domain, name in sorted(Graph(model).kinds() - functions)
        if not onnxruntime_runs(domain, name)
    ]
    if unknown:
        raise ConversionError(
            [
                Problem(
                    f"onnxruntime does not know {name}",
                    "the rewritten graph, for --onnxrt behind --trtsmith-rewrite",
                    "operators of onnxruntime, or such as `trtsmith ops` lists",
                    "give the operator an ONNX function body, or leave --onnxrt out",
                )
                for name in unknown
            ]
        )
