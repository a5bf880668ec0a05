"""Converts ONNX models whose operators TensorRT cannot import into engines, and compares the results.

    import trtsmith

    done = trtsmith.convert("model.onnx", "model.plan", progress=print)

    done = trtsmith.convert(module, (x,), dynamic_shapes=({0: batch},), output="net.plan")  # a torch.nn.Module
    y = trtsmith.load("net.plan")(x)

The names in `__all__` are the public API; any other may change in any release. Each is imported when it is first used, so
`import trtsmith` costs next to nothing, and `trtsmith.Runner` does not import what converts models.

Functions take the options of the commands of the same name, and return frozen results. They print nothing: `progress`
gets a line of text for each thing that is begun. A path is a str or an os.PathLike; where several paths or texts are
taken, a single one will do. Where a file of arrays is taken, a dict of arrays will do, and where an ONNX file is, its
onnx.ModelProto or bytes. What a user can mend is raised as a TrtsmithError, whose `problems` say what is wrong,
where, what was expected and what fixes it. They name options as the command line does (`--shapes` is `shapes`).
ConversionError is of the model, InvalidModelError of a file that is no sound model, UsageError of options, files and
the environment.

Functions may be called from several threads at once, `batch` from one. Operators of `ops` are in force in the thread of
that call. Exports from PyTorch, and imports of what `ops` names, run one after the other; a module is exported by one
thread at a time. An `Engine` or a `Runner` belongs to one thread at a time: load one for each. Of what belongs to the
whole process, calls change these, and put them back: loggers and warning filters of PyTorch's exporter while it runs;
Python's garbage collector, which pauses while a graph is rewritten; sys.path while a "module:function" is imported; for
an opset that onnxruntime has not released, one environment variable while it opens the model. What stays: onnx's registry
has one schema more, in the domain `trtsmith.inference`, and the soft limit on open files rises for a model of more files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trtsmith.api import check_plugin, load_report, operators
    from trtsmith.batch_function import batch
    from trtsmith.bench_function import bench
    from trtsmith.bundle_function import bundle
    from trtsmith.check_function import check
    from trtsmith.convert_function import convert
    from trtsmith.converter.batch.driver import BatchResult
    from trtsmith.converter.convert.analysis import Analysis
    from trtsmith.converter.convert.pipeline import Conversion
    from trtsmith.converter.convert.reports import Report
    from trtsmith.converter.engine.bundle.triton import TritonModel
    from trtsmith.converter.engine.runtime.engine_module import Engine, load
    from trtsmith.converter.engine.runtime.runner import Runner
    from trtsmith.converter.locate.found import Located
    from trtsmith.converter.model.errors import ConversionError, InvalidModelError, TrtsmithError, UsageError
    from trtsmith.converter.plugin.contract import LibraryReport
    from trtsmith.converter.verify.verdict import Verdict
    from trtsmith.importers.opdef import OpDef
    from trtsmith.importers.problem import Problem
    from trtsmith.locate_function import locate
    from trtsmith.rewrite_function import rewrite
    from trtsmith.run_function import run
    from trtsmith.verify_function import verify

    __version__: str

__all__ = [
    "Analysis",
    "BatchResult",
    "Conversion",
    "ConversionError",
    "Engine",
    "InvalidModelError",
    "LibraryReport",
    "Located",
    "OpDef",
    "Problem",
    "Report",
    "Runner",
    "TritonModel",
    "TrtsmithError",
    "UsageError",
    "Verdict",
    "__version__",
    "batch",
    "bench",
    "bundle",
    "check",
    "check_plugin",
    "convert",
    "load",
    "load_report",
    "locate",
    "operators",
    "rewrite",
    "run",
    "verify",
]

if not os.path.isfile(f"{__path__[0]}/converter/__init__.py"):  # a checkout has both folders beside this one
    __path__.append(os.path.dirname(__path__[0]))

TELEMETRY_OFF = {
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime 1.32 reports node names, and writes below the user's cache and TMPDIR
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""Keeps libraries from reporting their use. They read it when they are imported, and this package comes before them."""

for _name, _value in TELEMETRY_OFF.items():
    os.environ.setdefault(_name, _value)  # children inherit it; who has set it means it

_OWN_MODULE = ("batch", "bench", "bundle", "check", "convert", "locate", "rewrite", "run", "verify")
_HOMES = {
    **{name: f"trtsmith.{name}_function" for name in _OWN_MODULE},
    **dict.fromkeys(("check_plugin", "load_report", "operators"), "trtsmith.api"),
    **dict.fromkeys(("Engine", "load"), "trtsmith.converter.engine.runtime.engine_module"),
    "Analysis": "trtsmith.converter.convert.analysis",
    "BatchResult": "trtsmith.converter.batch.driver",
    "Conversion": "trtsmith.converter.convert.pipeline",
    "LibraryReport": "trtsmith.converter.plugin.contract",
    "Located": "trtsmith.converter.locate.found",
    "OpDef": "trtsmith.importers.opdef",
    "TritonModel": "trtsmith.converter.engine.bundle.triton",
    "Report": "trtsmith.converter.convert.reports",
    "Runner": "trtsmith.converter.engine.runtime.runner",
    **dict.fromkeys(
        ("ConversionError", "InvalidModelError", "TrtsmithError", "UsageError"),
        "trtsmith.converter.model.errors",
    ),
    "Verdict": "trtsmith.converter.verify.verdict",
    "Problem": "trtsmith.importers.problem",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name):
        """The public name, from its home (PEP 562)."""
        if name == "__version__":
            from trtsmith.converter.engine.bundle.bundle import toolkit_version

            found = toolkit_version()
        elif name in _HOMES:
            from importlib import import_module

            found = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
