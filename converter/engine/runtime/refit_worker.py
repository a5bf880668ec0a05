"""Child side of a refit: loads the engine, gives it the weights of an ONNX file, and writes it anew.

converter/engine/child says how it talks to its parent.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_worker import write_engine
from trtsmith.converter.engine.builder.explain import explain
from trtsmith.converter.engine.builder.flavour import Flavour, load_flavour
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpu
from trtsmith.converter.engine.builder.messages import Messages, make_logger
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.runtime.device import no_gpu
from trtsmith.converter.engine.runtime.explain_failure import EngineIdentity
from trtsmith.converter.engine.runtime.loading import load_engine, read_engine
from trtsmith.converter.engine.runtime.run_request import RefitRequest
from trtsmith.converter.engine.runtime.runtime_log import TensorrtLog
from trtsmith.importers.problem import Problem

_MOST = 8
"""Weights that are named."""


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Carries out a RefitRequest. Returns {"weights": how many it can take, "again": whether this TensorRT lets an engine
    that was built without weights take others later}.
    """
    request = RefitRequest.from_json(request_json)
    messages = Messages(log_path, request.run.verbose, events)
    gpu = find_gpu()
    if gpu is None:
        raise UsageError(no_gpu())
    events.phase("loading TensorRT")
    flavour = load_flavour(request.run.flavour)
    log = TensorrtLog(make_logger(flavour, messages), messages, events.phase)
    try:
        return refit(request, flavour, gpu, log)
    finally:
        messages.flush()


def refit(request: RefitRequest, flavour: Flavour, gpu: Gpu, log: TensorrtLog) -> dict[str, Any]:
    """Does the work of `main` with a GPU and a TensorRT that are there already."""
    trt: Any = flavour.module
    run, where = request.run, str(request.run.engine_path)
    origin = EngineIdentity(where, run.plugin_libraries, run.built_version, run.targets)
    data, libraries = read_engine(run.engine_path), run.plugin_libraries
    loaded = load_engine(flavour, data, libraries, gpu, origin, log, embedded_plugins=run.embedded_plugins)
    engine = loaded.engine
    log.announce("giving the engine its new weights")
    refitter = trt.Refitter(engine, log.logger)
    known = frozenset(refitter.get_all_weights())
    fixed = [name for name in request.changed if name not in known]
    if fixed:
        raise UsageError([_fixed(name, where, len(known)) for name in fixed[:_MOST]])
    weights_parser = trt.OnnxParserRefitter(refitter, log.logger)
    log.take_errors()
    parsed = weights_parser.refit_from_file(str(request.onnx_path))
    said = [weights_parser.get_error(index).desc() for index in range(weights_parser.num_errors)]
    names = refitter.get_missing_weights()
    if names:
        raise UsageError([_missing(name or "(without a name)", where) for name in names[:_MOST]])
    if not parsed or not refitter.refit_cuda_engine():
        raise UsageError(_refused([*said, *log.take_errors()], where, rtx=flavour.is_rtx))
    log.announce("writing the engine")
    serialization = engine.create_serialization_config()
    serialization.clear_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    types = trt.SerializationFlag.__members__
    again = "INCLUDE_REFIT" in types  # 10.3 has no such flag
    if again:
        serialization.set_flag(types["INCLUDE_REFIT"])
    plan = engine.serialize_with_config(serialization)
    if plan is None:
        raise UsageError(_refused(log.take_errors(), where, rtx=flavour.is_rtx))
    write_engine(request.output, plan)
    return {"weights": len(known), "again": again}


def _fixed(name: str, where: str, count: int) -> Problem:
    return Problem(
        f"the new model has another value of {name!r}, which TensorRT compiled into the engine",
        f"weight {name!r} of {where}",
        f"new values of weights that can be refitted alone; the engine has {count}",
        "convert the new model",
    )


def _missing(name: str, where: str) -> Problem:
    return Problem(
        f"TensorRT has no new value of the weight {name!r}",
        f"weight {name!r} of {where}",
        "a weight of the rewritten graph of that name",
        "convert the new model",
    )


def _refused(said: Sequence[str], where: str, *, rtx: bool) -> list[Problem]:
    return [explain(one, where, rtx=rtx) for one in dict.fromkeys(said)] or [
        explain("TensorRT refused the weights, and says nothing", where, rtx=rtx)
    ]


if __name__ == "__main__":
    serve(sys.argv[1:], main)
