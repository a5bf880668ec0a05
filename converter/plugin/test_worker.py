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
from trtsmith.converter.plugin.checks.checks_gpu import GPU_CHECKS, kernel
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


def describe(library: PluginLibrary, host: Host) -> dict[str, Any]:
    """The library as plain data: how it offers its creators, and what each says of itself."""
    creators = []
    for creator in library.creators:
        info = creator.info
        creators.append(
            {
                "kind": info.kind,
                "kind_version": [info.major, info.minor],
                "family": info.family,
                "name": info.name,
                "version": info.version,
                "namespace": info.namespace,
                "fields": [
                    {
                        "name": spec.name,
                        "type": spec.type,
                        "length": spec.length,
                        "default": spec.plain_default(),
                    }
                    for spec in creator.fields
                ],
            }
        )
    gpu = host.device().name if host.device_count() else None
    return {
        "path": str(library.path),
        "how": library.how,
        "needs": tensorrt_libraries(),
        "creators": creators,
        "gpu": gpu,
    }


def tensorrt_libraries(maps: Path = Path("/proc/self/maps")) -> list[str]:
    """File names of the TensorRT libraries in this process: none is there but by the library that was loaded."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return []
    files = {Path(line.split(maxsplit=5)[-1]).name for line in lines if "/" in line}
    return sorted(name for name in files if name.startswith(("libnvinfer", "libtensorrt_rtx")))


def probe(session: CreatorUnderTest) -> dict[str, Any]:
    """What one plugin says of itself, where it can be created without knowing its fields."""
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
    """One check as {"verdict", "note"} or {"verdict": "fail", "what", "expected", "fix"}."""
    try:
        if name in GPU_CHECKS:
            note = kernel(session, case, name)
        else:
            note = next(check for check in CHECKS if check.name == name).run(session, case)
    except NotTestableError as reason:
        return {"verdict": "not testable", "note": str(reason)}
    except CheckFailedError as failure:
        return {"verdict": "fail", "what": failure.what, "expected": failure.expected, "fix": failure.fix}
    except PluginError as error:
        problem = error.problems[0]
        # The part of where that the parent does not know: the call that failed.
        call = problem.where.rpartition(", ")[2] if ", " in problem.where else ""
        what = f"{problem.what} ({call})" if call else problem.what
        return {"verdict": "fail", "what": what, "expected": problem.expected, "fix": problem.fix}
    except ValueError as error:
        return {
            "verdict": "fail",
            "what": str(error),
            "expected": "a case that fits the plugin",
            "fix": "mend the case",
        }
    except Exception as error:  # of the check, not of the plugin: it must not end the others
        return {
            "verdict": "fail",
            "what": f"the check itself broke: {type(error).__name__}: {error}",
            "expected": "a verdict on the plugin",
            "fix": "report this, with the library if you can",
        }
    return {"verdict": "pass", "note": note or ""}


class _Opened:
    """The library that this process has loaded, and a session for each of its creators."""

    def __init__(self, library: PluginLibrary) -> None:
        self.library = library
        self.sessions = [CreatorUnderTest(creator) for creator in library.creators]


_OPENED: list[_Opened] = []


def load(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    """The setup of a worker: load the library, and describe it."""
    del events, log_path
    files = json.loads(request)
    host = Host(files["host"] and Path(files["host"]))
    library = host.open(Path(files["library"]))
    _OPENED.append(_Opened(library))
    return describe(library, host)


def answer(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    """One question about one creator: (its index, what is asked, the case)."""
    del events, log_path
    index, name, case = read_request(request)
    session = _OPENED[0].sessions[index]
    if isinstance(case, KernelCall):
        return run_call(session, case)
    if name == OUTPUTS:
        return answer_outputs(session, case)
    return probe(session) if name == "probe" else run_check(session, name, case)


def unload() -> None:
    for opened in _OPENED:
        opened.library.close()


if __name__ == "__main__":
    serve(sys.argv[1:], answer, setup=load, end=unload)
