"""Defines the public function `check` and its options.

The example is of a model.onnx that computes the Inverse of com.microsoft of the Neg of an input x of shape (n, 4, 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from typing_extensions import TypedDict, Unpack

from trtsmith.arguments import (
    Example,
    ModelLike,
    model_of,
    stage_options,
    unheard,
    with_operators,
)
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import only, with_defaults
from trtsmith.converter.base.options.kinds import Flag
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions, PluginOptions
from trtsmith.converter.convert.freezing import FreezingOptions
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.trial_build import check_model
from trtsmith.converter.convert.workarounds.refusals import Refusals
from trtsmith.converter.engine.builder.build_request import BuilderOptions
from trtsmith.options import (
    Operators,
    Replacing,
    Shapes,
    Torch,
)


class Trial(TypedDict, total=False):
    """trial build"""

    build: Annotated[
        bool,
        Flag(
            "also build an engine and discard it: slower, but the only way to know whether TensorRT accepts the graph",
            common=True,
        ),
    ]


CHECKED = (
    *(
        Torch,
        Shapes,
        FreezingOptions,
        PrecisionRequest,
        only(BuilderOptions, "engine", "flavour"),
        PluginOptions,
        Trial,
    ),
    only(BuilderOptions, "trial build", "target", "optimization_level", "timeout"),
    *(Refusals, Replacing, Operators),
)
"""The options of `trtsmith check`."""


def looked_at(model: GivenModel, given: Any, **build: Any) -> ConvertOptions:
    """Makes the options to analyse a model for `check` or `convert --dry-run`. build: options of a trial build."""
    return stage_options(
        ConvertOptions,
        CHECKED,
        given,
        model=model,
        output=None,
        precision=stage_options(PrecisionRequest, CHECKED, given),
        verify=None,
        keep=False,
        **build,
    )


def build_of(given: Any) -> dict[str, Any]:
    """Returns the options of `check` for a trial build. Raises UsageError for one without --build."""
    of_build = {
        "--target": given.target,
        "--optimization-level": given.optimization_level is not None,
        "--timeout": given.timeout,
        "--refused": given.refused,
        "--mend-with": given.mend_with,
    }
    wrong = [flag for flag, value in of_build.items() if value]
    if wrong and not given.build:
        what = f"{wrong[0]} only applies with --build"
        raise UsageError(what, wrong[0], "check with --build", "add --build, or remove the flag")
    return {
        "refusals": stage_options(Refusals, CHECKED, given),
        "verbose": getattr(given, "verbose", False),  # more lines of the command line
    }


@with_operators(CHECKED)
def check(
    model: ModelLike,
    args: Example = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.CheckKeywords],
) -> Analysis:
    """Checks how every node of a model reaches TensorRT, and lists all problems. Needs neither a GPU nor TensorRT.

    build: whether to build an engine, too, and discard it; needs TensorRT. Only a build shows whether TensorRT accepts the
        graph: without one, `convertible` only says that every node has a route.

    Other arguments are those of `convert`; `shapes` and `values` are optional. For a model that cannot be converted, the
    result says so; nothing is raised.

    >>> import trtsmith
    >>> analysis = trtsmith.check("model.onnx")
    >>> analysis.convertible, analysis.problems
    (True, ())
    >>> for node in analysis.plan.nodes:
    ...     print(node.op_type, node.route.value)
    Neg native
    com.microsoft::Inverse plugin

    Raises InvalidModelError for an invalid model, and UsageError.
    """
    given = with_defaults(CHECKED, options)
    source, trial = model_of(model, args, kwargs, given), build_of(given)
    return check_model(looked_at(source, given, **trial), unheard, build=given.build)
