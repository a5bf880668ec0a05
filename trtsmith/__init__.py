"""Converts ONNX models whose operators TensorRT cannot import into engines, and compares the results.

    import trtsmith

    done = trtsmith.convert("model.onnx", "model.plan", progress=print)

    done = trtsmith.convert(module, (x,), dynamic_shapes=({0: batch},), output="net.plan")  # a torch.nn.Module
    y = trtsmith.load("net.plan")(x)

The names in `__all__` are the public API; all others may change in any release. Names are imported on first use, so
`import trtsmith` is cheap, and `trtsmith.Runner` does not import the converter.

Functions take the options of the commands of the same name, and return frozen results. They print nothing: `progress`
gets a line of text for each step. A path is a str or an os.PathLike; an option for several paths or texts also takes a
single one. Instead of a file of arrays you can pass a dict of arrays, and instead of an ONNX file its onnx.ModelProto or
bytes. Users' mistakes raise a TrtsmithError, whose `problems` give the fault, the place, the expected value and the fix.
They name options as on the command line (`--shapes` is `shapes`). ConversionError concerns the model, InvalidModelError an
invalid model file, UsageError options, files and the environment.

Functions may be called from several threads at once, `batch` from one. Operators of `ops` are active in the thread of
that call only. Exports from PyTorch, and imports for `ops`, run one after the other; only one thread exports a module at
a time. An `Engine` or a `Runner` belongs to one thread at a time: load one for each. Calls change, and restore, this
process-wide state: loggers and warning filters of PyTorch's exporter while it runs; Python's garbage collector, which
pauses while a graph is rewritten; sys.path while a "module:function" is imported; for an opset that onnxruntime has not
released, one environment variable while it opens the model. Two changes remain: onnx's registry has one more schema, in
the domain `trtsmith.inference`, and the soft limit on open files rises for a model with many files.
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
    from trtsmith.converter.base.errors import ConversionError, InvalidModelError, TrtsmithError, UsageError
    from trtsmith.converter.batch.driver import BatchResult
    from trtsmith.converter.convert.analysis import Analysis
    from trtsmith.converter.convert.conversion import Conversion
    from trtsmith.converter.convert.refitting import Refitted
    from trtsmith.converter.convert.reports import Report
    from trtsmith.converter.engine.bundle.engine_facts import BundledEngine
    from trtsmith.converter.engine.runtime.engine_module import Engine
    from trtsmith.converter.engine.runtime.runner import Runner
    from trtsmith.converter.locate.found import Located
    from trtsmith.converter.plugin.contract import LibraryReport
    from trtsmith.converter.tune.tune import Tuned
    from trtsmith.converter.verify.verdict import Verdict
    from trtsmith.importers.opdef import OpDef
    from trtsmith.importers.problem import Problem
    from trtsmith.load_function import load
    from trtsmith.locate_function import locate
    from trtsmith.refit_function import refit
    from trtsmith.rewrite_function import rewrite
    from trtsmith.run_function import run
    from trtsmith.tune_function import tune
    from trtsmith.verify_function import verify

    __version__: str

__all__ = [
    "Analysis",
    "BatchResult",
    "BundledEngine",
    "Conversion",
    "ConversionError",
    "Engine",
    "InvalidModelError",
    "LibraryReport",
    "Located",
    "OpDef",
    "Problem",
    "Refitted",
    "Report",
    "Runner",
    "TrtsmithError",
    "Tuned",
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
    "refit",
    "rewrite",
    "run",
    "tune",
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

_OWN_MODULE = (
    "batch",
    "bench",
    "bundle",
    "check",
    "convert",
    "load",
    "locate",
    "refit",
    "rewrite",
    "run",
    "tune",
    "verify",
)
_HOMES = {
    **{name: f"trtsmith.{name}_function" for name in _OWN_MODULE},
    **dict.fromkeys(("check_plugin", "load_report", "operators"), "trtsmith.api"),
    "Engine": "trtsmith.converter.engine.runtime.engine_module",
    "Analysis": "trtsmith.converter.convert.analysis",
    "BatchResult": "trtsmith.converter.batch.driver",
    "BundledEngine": "trtsmith.converter.engine.bundle.engine_facts",
    "Conversion": "trtsmith.converter.convert.conversion",
    "LibraryReport": "trtsmith.converter.plugin.contract",
    "Located": "trtsmith.converter.locate.found",
    "OpDef": "trtsmith.importers.opdef",
    "Refitted": "trtsmith.converter.convert.refitting",
    "Report": "trtsmith.converter.convert.reports",
    "Runner": "trtsmith.converter.engine.runtime.runner",
    **dict.fromkeys(
        ("ConversionError", "InvalidModelError", "TrtsmithError", "UsageError"),
        "trtsmith.converter.base.errors",
    ),
    "Tuned": "trtsmith.converter.tune.tune",
    "Verdict": "trtsmith.converter.verify.verdict",
    "Problem": "trtsmith.importers.problem",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name):
        """Returns the public name, from its home (PEP 562)."""
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
    return __all__
