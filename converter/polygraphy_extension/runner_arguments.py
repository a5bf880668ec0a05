"""Defines the options of trtsmith's runners in `polygraphy run`: its reference graph, and its engines."""

from __future__ import annotations

from typing import Any

from polygraphy.tools.args import ModelArgs, TrtConfigArgs, TrtLoadPluginsArgs
from polygraphy.tools.args import util as args_util
from polygraphy.tools.args.base import BaseRunnerArgs
from polygraphy.tools.script import make_invocable

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.polygraphy_extension.polygraphy_log import problems_logged
from trtsmith.converter.polygraphy_extension.rewriting_arguments import TrtsmithArgs

_RUNNERS = "trtsmith.converter.polygraphy_extension"


class TrtsmithReferenceArgs(BaseRunnerArgs):  # type: ignore[misc]
    """
    trtsmith Reference Inference: running the model as it is, custom operators expanded, in ONNX-Runtime.

    Depends on:

        - TrtsmithArgs
    """

    def get_name_opt_impl(self) -> tuple[str, str]:
        return "trtsmith's reference graph", "trtsmith-reference"

    def get_extra_help_text_impl(self) -> str:
        return "This is the model as it is, in ONNX-Runtime, with custom operators written in standard ones"

    def add_to_script_impl(self, script: Any) -> None:
        script.add_import(imports=["TrtsmithReferenceRunner"], frm=f"{_RUNNERS}.reference_runner")
        common = self.arg_groups[TrtsmithArgs]
        with problems_logged():
            model = common.model(script, "--trtsmith-reference")
        script.add_runner(
            make_invocable("TrtsmithReferenceRunner", model, freeze=common.freeze, **common.operators)
        )


class TrtsmithEngineArgs(BaseRunnerArgs):  # type: ignore[misc]
    """
    trtsmith Inference: running engines that trtsmith builds, with their plugin libraries.

    Depends on:

        - TrtsmithArgs
        - ModelArgs
        - TrtConfigArgs: for --trt-min-shapes, --trt-opt-shapes, --trt-max-shapes
    """

    def get_name_opt_impl(self) -> tuple[str, str]:
        return "trtsmith", "trtsmith"

    def get_extra_help_text_impl(self) -> str:
        return (
            "The engine is built by trtsmith's pipeline, with --trt-min-shapes and the like, --fp16, --bf16, --int8, --fp8 "
            "and --plugins; a model that is an engine of trtsmith's is run as it is"
        )

    def add_parser_args_impl(self) -> None:
        self.group.add_argument(
            "--trtsmith-engine",
            metavar="PLAN",
            default=None,
            help="Run this engine, which `trtsmith convert` wrote, instead of building one",
        )
        self.group.add_argument(
            "--trtsmith-save-engine",
            metavar="PLAN",
            default=None,
            help="Keep the engine that is built, with its manifest and plugin library beside it",
        )

    def parse_impl(self, args: Any) -> None:
        """Sets the attributes `engine` and `save` (str or None): paths of engines."""
        self.engine = args_util.get(args, "trtsmith_engine")
        self.save = args_util.get(args, "trtsmith_save_engine")

    def add_to_script_impl(self, script: Any) -> None:
        common = self.arg_groups[TrtsmithArgs]
        script.add_import(imports=["TrtsmithRunner"], frm=f"{_RUNNERS}.engine_runner")
        with problems_logged():
            engine = self._ready_engine() or self._built_engine(script)
            runner = make_invocable(
                "TrtsmithRunner",
                engine,
                plugins=self.arg_groups[TrtLoadPluginsArgs].plugins,
                flavour=common.flavour,
            )
        script.add_runner(runner)

    def _ready_engine(self) -> str | None:
        """The existing engine, if one is named; "model.plan" may be the model itself."""
        given = self.arg_groups[ModelArgs]
        ready: str | None = self.engine or (given.path if given.model_type == "engine" else None)
        if ready and self.save:
            what = "--trtsmith-save-engine is given together with an existing engine"
            expected = "one of the two"
            where = f"{ready}, --trtsmith-save-engine {self.save}"
            raise UsageError(what, where, expected, "remove --trtsmith-save-engine")
        return ready

    def _built_engine(self, script: Any) -> Any:
        common = self.arg_groups[TrtsmithArgs]
        model = common.model(script, "--trtsmith")
        script.add_import(imports=["BuildTrtsmithEngine"], frm=f"{_RUNNERS}.engine_runner")
        loader = make_invocable(
            "BuildTrtsmithEngine", model, shapes=self._shapes(), save=self.save, **common.settings()
        )
        return script.add_loader(loader, "build_trtsmith_engine")

    def _shapes(self) -> dict[str, Any] | None:
        """The profile, by input: (smallest, usual, largest)."""
        profiles = self.arg_groups[TrtConfigArgs].profile_dicts
        if len(profiles) > 1:
            raise UsageError(
                f"{len(profiles)} optimization profiles are asked for",
                "--trt-min-shapes, --trt-opt-shapes, --trt-max-shapes",
                "one profile: the runner has one",
                "give each option once, with ranges that cover all shapes",
            )
        if not profiles:
            return None
        return {name: tuple(tuple(shape) for shape in shapes) for name, shapes in profiles[0].items()} or None
