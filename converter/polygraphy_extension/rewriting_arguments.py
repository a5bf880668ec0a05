"""Defines the options that trtsmith's loader and runners share in `polygraphy run`, and those of its loader."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from polygraphy import config
from polygraphy.tools.args import (
    ModelArgs,
    OnnxLoadArgs,
    OnnxrtSessionArgs,
    OnnxSaveArgs,
    RunnerSelectArgs,
    TrtConfigArgs,
    TrtLoadNetworkArgs,
    TrtLoadPluginsArgs,
)
from polygraphy.tools.args import util as args_util
from polygraphy.tools.args.base import BaseArgs
from polygraphy.tools.script import make_invocable

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.kinds import FLAVOUR
from trtsmith.converter.polygraphy_extension.polygraphy_log import problems_logged, warn

LOADERS = "trtsmith.converter.polygraphy_extension.onnx_loaders"
PLUGINS = "trtsmith.converter.polygraphy_extension.plugin_loader"


class RewrittenModelArgs(OnnxLoadArgs):  # type: ignore[misc]  # Polygraphy has no types
    """
    TensorRT Graphs: replaces OnnxLoadArgs for groups that make runners of the loaded model.

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
        """Returns True, as no group may read the original file."""
        return True

    def add_to_script_impl(
        self, script: Any, disable_custom_outputs: Any = None, serialize_model: Any = None
    ) -> Any:
        """Returns the base's model, rewritten before it is saved (--save-onnx)."""
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
    """Loads models without --save-onnx inside the block. saving: the group of that option."""
    path, saving.path = saving.path, None
    try:
        yield
    finally:
        saving.path = path


def give_rewritten(user: Any, first: int, settings: dict[str, Any], *, for_onnxruntime: bool) -> None:
    """Makes only the group `user` take its ONNX model from a RewrittenModelArgs."""
    groups = copy.copy(user.arg_groups)
    groups[OnnxLoadArgs] = RewrittenModelArgs(
        groups[OnnxLoadArgs], first, settings, for_onnxruntime=for_onnxruntime
    )
    user.register(groups)


_PRECISIONS = ("fp16", "bf16", "int8", "fp8")
_TENSORRT, _ONNXRUNTIME = "trt", "onnxrt"  # Polygraphy's options of runners that can get a rewritten graph


class TrtsmithArgs(BaseArgs):  # type: ignore[misc]  # Polygraphy has no types
    """
    trtsmith: options that trtsmith's loader and runners share.

    Depends on:

        - ModelArgs
        - OnnxLoadArgs
        - OnnxSaveArgs
        - TrtsmithRewriteArgs
        - TrtConfigArgs: for --fp16, --bf16, --int8, --fp8
        - TrtLoadPluginsArgs: for --plugins
    """

    def add_parser_args_impl(self) -> None:
        self.group.add_argument(
            "--trtsmith-flavour",
            choices=FLAVOUR.flag["choices"],
            default=None,
            help="The TensorRT to rewrite and build for. Default: tensorrt_rtx if POLYGRAPHY_USE_TENSORRT_RTX is 1, "
            "else tensorrt or tensorrt_rtx, as `trtsmith convert` chooses",
        )
        self.group.add_argument(
            "--trtsmith-freeze",
            metavar="NAME=VALUE",
            nargs="+",
            default=None,
            help="Make inputs constants for trtsmith's loader and runners: axes=[0,1], k=3, training=true, grid=@FILE.npy",
        )
        self.group.add_argument(
            "--trtsmith-ops",
            metavar="SPEC",
            nargs="+",
            default=None,
            help="Definitions of operators of your own: FILE.py, a FOLDER or a dotted MODULE with OPERATORS, which is "
            "imported and so runs. TRTSMITH_OPS names more",
        )
        self.group.add_argument(
            "--trtsmith-no-plugins-from-packages",
            action="store_false",
            default=None,
            dest="trtsmith_packages",
            help="Leave out operators of installed packages",
        )

    def parse_impl(self, args: Any) -> None:
        """
        Sets the attributes `flavour` (str, or None for trtsmith's own choice), `freeze` (list of str, or None) and
        `operators` (dict): where operators from outside come from.
        """
        flavour = args_util.get(args, "trtsmith_flavour")
        self.flavour = flavour or ("tensorrt_rtx" if config.USE_TENSORRT_RTX else None)
        self.freeze = args_util.get(args, "trtsmith_freeze")
        self.operators = {
            "ops": args_util.get(args, "trtsmith_ops"),
            "packages": args_util.get(args, "trtsmith_packages"),
        }

    def settings(self) -> dict[str, Any]:
        """Returns arguments that RewriteForTensorrt and BuildTrtsmithEngine share."""
        return {
            "flavour": self.flavour,
            "precision": self._precision(),
            "plugins": self.arg_groups[TrtLoadPluginsArgs].plugins,
            "freeze": self.freeze,
            **self.operators,
        }

    def model(self, script: Any, user: str) -> Any:
        """Returns the original ONNX model in a script: its path, or Polygraphy's loader if that changes the model.

        user: the option that wants it, for the message where there is none.
        """
        given = self.arg_groups[ModelArgs]
        if given.model_type is not None and given.model_type.is_trt():
            raise UsageError(
                f"{given.path} is not an ONNX model, but {given.model_type}",
                user,
                "the model that an engine is built from: a .onnx file",
                "give the ONNX model; --trtsmith-engine names an engine that is there already",
            )
        loading, saving = self.arg_groups[OnnxLoadArgs], self.arg_groups[OnnxSaveArgs]
        # Then --save-onnx is for its graph.
        rewriting = self.arg_groups[TrtsmithRewriteArgs].first is not None
        with nothing_saved(saving) if rewriting else nullcontext():
            return loading.add_to_script(script) if loading.must_use_onnx_loader() else given.path

    def _precision(self) -> str | None:
        configured = self.arg_groups[TrtConfigArgs]
        asked = [name for name in _PRECISIONS if getattr(configured, name)]
        if len(asked) > 1:
            flags = " ".join(f"--{name}" for name in asked)
            raise UsageError("several precisions are given", flags, "one of them", f"keep --{asked[0]}")
        return asked[0] if asked else None


class _After(argparse.Action):
    """Notes how many runners precede the option on the command line."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, len(getattr(namespace, "runners", None) or ()))


class TrtsmithRewriteArgs(BaseArgs):  # type: ignore[misc]
    """
    trtsmith Rewriting: the graph that TensorRT gets.

    Depends on:

        - TrtsmithArgs
        - RunnerSelectArgs
        - OnnxrtSessionArgs
        - TrtLoadNetworkArgs
    """

    def add_parser_args_impl(self) -> None:
        self.group.add_argument(
            "--trtsmith-rewrite",
            action=_After,
            nargs=0,
            default=None,
            help="Rewrite the ONNX model with trtsmith, so that TensorRT imports it. The runners --trt and --onnxrt that "
            "come after this option get the rewritten graph, those before it the model as it is. For --trt, trtsmith's "
            "plugin library is loaded; for --onnxrt, plugin nodes are written in standard operators. "
            "--save-onnx saves the rewritten graph",
        )

    def parse_impl(self, args: Any) -> None:
        """Sets the attribute `first` (int): the place of the first runner that gets the rewritten graph, or None."""
        self.first = args_util.get(args, "trtsmith_rewrite")
        if self.first is None:
            return
        with problems_logged():
            settings = self.arg_groups[TrtsmithArgs].settings()
        give_rewritten(self.arg_groups[TrtLoadNetworkArgs], self.first, settings, for_onnxruntime=False)
        give_rewritten(self.arg_groups[OnnxrtSessionArgs], self.first, settings, for_onnxruntime=True)
        self._warn(list(self.arg_groups[RunnerSelectArgs].runners.keys()))

    def _warn(self, runners: list[str]) -> None:
        rewritten = [name for name in runners[self.first :] if name in (_TENSORRT, _ONNXRUNTIME)]
        if not rewritten:
            warn("--trtsmith-rewrite has no effect: no --trt and no --onnxrt comes after it")
        elif len(rewritten) == len(runners) > 1:
            warn(
                "All runners run the rewritten graph, so nothing is compared with the model as it is: add "
                "--trtsmith-reference, or put --onnxrt before --trtsmith-rewrite"
            )
