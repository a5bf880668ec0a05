"""Inserts the rewrite between the model that Polygraphy loads and the runners after --trtsmith-rewrite."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polygraphy.tools.args import ModelArgs, OnnxLoadArgs, OnnxSaveArgs
from polygraphy.tools.script import make_invocable

LOADERS = "trtsmith.converter.polygraphy_extension.onnx_loaders"
PLUGINS = "trtsmith.converter.polygraphy_extension.plugin_loader"


class RewrittenModelArgs(OnnxLoadArgs):  # type: ignore[misc]  # Polygraphy has no types
    """
    TensorRT Graphs: stands in for OnnxLoadArgs, for groups that make runners of what it loads.

    Depends on:

        - OnnxLoadArgs: whose options it has
        - OnnxSaveArgs
    """

    def __init__(self, original: Any, first: int, settings: dict[str, Any], *, for_onnxruntime: bool) -> None:
        """
        original:        the group that loads the model.
        first:           the place, among all runners, of the first that gets the rewritten graph.
        settings:        of the rewriting, arguments of RewriteForTensorrt; ops and packages go to the loaders behind it.
        for_onnxruntime: whether plugin nodes are expanded.
        """
        super().__init__()
        self.__dict__.update(vars(original))
        self._first = first
        self._settings = settings
        self._for_onnxruntime = for_onnxruntime

    def must_use_onnx_loader(self, disable_custom_outputs: Any = None) -> bool:
        """Nobody gets the file itself."""
        return True

    def add_to_script_impl(
        self, script: Any, disable_custom_outputs: Any = None, serialize_model: Any = None
    ) -> Any:
        """As its base, with the rewriting before the model is saved (--save-onnx)."""
        saving = self.arg_groups[OnnxSaveArgs]
        with nothing_saved(saving):
            if len(script.runners) < self._first:
                return super().add_to_script_impl(script, disable_custom_outputs, serialize_model)
            model = self.arg_groups[
                ModelArgs
            ].path  # whose weights stay in the file, if nothing is to be done with it
            if super().must_use_onnx_loader(disable_custom_outputs):
                model = super().add_to_script_impl(script, disable_custom_outputs)
        script.add_import(imports=["RewriteForTensorrt"], frm=LOADERS)
        model = script.add_loader(
            make_invocable("RewriteForTensorrt", model, **self._settings), "rewrite_for_tensorrt"
        )
        model = saving.add_to_script(script, model)
        operators = {name: self._settings.get(name) for name in ("ops", "packages")}
        if self._for_onnxruntime:
            script.add_import(imports=["ExpandPluginNodes"], frm=LOADERS)
            model = script.add_loader(
                make_invocable("ExpandPluginNodes", model, **operators), "expand_plugin_nodes"
            )
        else:
            script.add_import(imports=["LoadTrtsmithPlugins"], frm=PLUGINS)
            model = script.add_loader(
                make_invocable("LoadTrtsmithPlugins", model, **operators), "load_trtsmith_plugins"
            )
        if serialize_model:
            script.add_import(imports=["BytesFromOnnx"], frm="polygraphy.backend.onnx")
            model = script.add_loader(make_invocable("BytesFromOnnx", model), "serialize_onnx")
        return model


@contextmanager
def nothing_saved(saving: Any) -> Iterator[None]:
    """In the block, models are loaded as if there were no --save-onnx. saving: the group of that option."""
    path, saving.path = saving.path, None
    try:
        yield
    finally:
        saving.path = path


def give_rewritten(user: Any, first: int, settings: dict[str, Any], *, for_onnxruntime: bool) -> None:
    """Let only the group `user` take its ONNX model from a RewrittenModelArgs."""
    groups = copy.copy(user.arg_groups)
    groups[OnnxLoadArgs] = RewrittenModelArgs(
        groups[OnnxLoadArgs], first, settings, for_onnxruntime=for_onnxruntime
    )
    user.register(groups)
