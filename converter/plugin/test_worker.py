"""Child side of test.py: loads one library and answers queries about its plugins.

A plugin that crashes takes only this process with it. In the end the library is unloaded and the process ends as Python
does, so that what crashes there is seen too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.plugin.calls import OUTPUTS, KernelCall, answer_outputs, run_call
from trtsmith.converter.plugin.checks.checks import (
    CREATOR_CHECKS,
    LIBRARY_CHECKS,
    CheckFailedError,
    ContractCheck,
    CreatorUnderTest,
    NotTestableError,
)
from trtsmith.converter.plugin.checks.checks_gpu import GPU_CHECKS, KERNEL_CHECKS, kernel
from trtsmith.converter.plugin.checks.checks_io import IO_CHECKS
from trtsmith.converter.plugin.checks.checks_profile import PROFILE_CHECKS
from trtsmith.converter.plugin.checks.checks_state import (
    FIELD_CHECKS,
    LIFE_CHECKS,
    STATE_CHECKS,
    THREAD_CHECKS,
)
from trtsmith.converter.plugin.host.host import Host, PluginLibrary
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.host_worker import read_request
from trtsmith.converter.plugin.observation import OBSERVE, OBSERVE_ALONE, VARY, observe, vary

CHECKS: tuple[ContractCheck, ...] = (
    *LIBRARY_CHECKS,
    *CREATOR_CHECKS,
    *FIELD_CHECKS,
    *STATE_CHECKS,
    *LIFE_CHECKS,
    *THREAD_CHECKS,
    *IO_CHECKS,
    *PROFILE_CHECKS,
)


ADVICE = {check.name: check.advice for check in CHECKS if check.advice}
ADVICE |= {check.name: check.advice for check in KERNEL_CHECKS if check.advice}
"""By the names of checks that TensorRT does not demand: the reason."""


def describe(library: PluginLibrary, host: Host) -> dict[str, Any]:
    """Describes the library as plain data: how it offers its creators, and what each answers."""
    creators = [
        {
            "kind": creator.info.kind,
            "kind_version": [creator.info.major, creator.info.minor],
            "family": creator.info.family,
            "name": creator.info.name,
            "version": creator.info.version,
            "namespace": creator.info.namespace,
            "fields": [
                {"name": one.name, "type": one.type, "length": one.length, "default": one.plain_default()}
                for one in creator.fields
            ],
        }
        for creator in library.creators
    ]
    gpu = host.device().name if host.device_count() else None
    return {
        "path": str(library.path),
        "how": library.how,
        "needs": tensorrt_libraries(),
        "creators": creators,
        "gpu": gpu,
    }


def tensorrt_libraries(maps: Path = Path("/proc/self/maps")) -> list[str]:
    """Lists file names of the TensorRT libraries in this process, which only the loaded library can have brought."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return []
    files = {Path(line.split(maxsplit=5)[-1]).name for line in lines if "/" in line}
    return sorted(name for name in files if name.startswith(("libnvinfer", "libtensorrt_rtx")))


def probe(session: CreatorUnderTest) -> dict[str, Any]:
    """Returns one plugin's answers, if it can be created without knowing its fields."""
    try:
        with session.create(None) as plugin:
            info = plugin.info
            return {
                "created": True,
                "interface": info.family.name,
                "tensorrt_version": info.tensorrt_version,
                "build_version": info.build_version,
                "outputs": info.output_count,
                "format_limit": info.format_limit,
                "tactics": list(plugin.tactics()),
                "timing_cache_id": plugin.timing_cache_id(),
                "metadata": plugin.metadata(),
            }
    except NotTestableError as reason:
        return {"created": False, "reason": str(reason)}
    except PluginError as error:
        return {"created": False, "reason": error.message}


def run_check(session: CreatorUnderTest, name: str, case: Any) -> dict[str, Any]:
    """Runs one check. Returns {"verdict", "note"} or {"verdict": "fail" or "advice", "what", "expected", "fix"}."""
    advice = name in ADVICE
    try:
        if name in GPU_CHECKS:
            note = kernel(session, case, name)
        else:
            note = next(check for check in CHECKS if check.name == name).run(session, case)
    except NotTestableError as reason:
        return {"verdict": "not testable", "note": str(reason)}
    except CheckFailedError as failure:
        return _failed(failure.what, failure.expected, failure.fix, advice=advice or failure.advice)
    except PluginError as error:
        problem = error.problems[0]
        # The part of where that the parent does not know: the call that failed.
        call = problem.where.rpartition(", ")[2] if ", " in problem.where else ""
        what = f"{problem.what} ({call})" if call else problem.what
        return _failed(what, problem.expected, problem.fix, advice=advice)
    except ValueError as error:
        return _failed(str(error), "a case that fits the plugin", "mend the case")
    except Exception as error:  # of the check, not of the plugin: it must not end the others
        what = f"the check itself broke: {type(error).__name__}: {error}"
        return _failed(what, "a verdict on the plugin", "report this, with the library if you can")
    return {"verdict": "pass", "note": note or ""}


def _failed(what: str, expected: str, fix: str, *, advice: bool = False) -> dict[str, Any]:
    return {"verdict": "advice" if advice else "fail", "what": what, "expected": expected, "fix": fix}


_LIBRARIES: list[PluginLibrary] = []
"""The one that this process has loaded."""

_SESSIONS: list[CreatorUnderTest] = []
"""Of its creators."""


def load(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Sets up a worker: loads the library, and describes it."""
    del events, log_path
    setup = json.loads(request)
    host = Host(setup["host"] and Path(setup["host"]))
    library = host.open(Path(setup["library"]), setup["init"])
    _LIBRARIES.append(library)
    _SESSIONS.extend(map(CreatorUnderTest, library.creators))
    return describe(library, host)


def answer(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Answers one question about one creator: (its index, what is asked, the case)."""
    del events, log_path
    index, name, case = read_request(request)
    session = _SESSIONS[index]
    if isinstance(case, KernelCall):
        return run_call(session, case)
    if name in (OBSERVE, VARY):
        return (observe if name == OBSERVE else vary)(session, case)
    if name == OBSERVE_ALONE:
        return observe(session, case, 1)
    if name == OUTPUTS:
        return answer_outputs(session, case)
    return probe(session) if name == "probe" else run_check(session, name, case)


def unload() -> None:
    for library in _LIBRARIES:
        library.close()


if __name__ == "__main__":
    serve(sys.argv[1:], answer, setup=load, end=unload)
