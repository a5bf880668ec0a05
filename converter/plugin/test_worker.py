"""The child process of test.py: loads one library and answers requests until its input ends.

Requests come pickled from the parent on standard input; answers go back as one JSON line each on what was standard
output. Whatever plugins print goes to standard error. A plugin that crashes takes only this process with it.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.plugin.calls import KernelCall, run_call
from trtsmith.converter.plugin.checks.checks import (
    CREATOR_CHECKS,
    Check,
    CheckFailedError,
    NotTestableError,
    Session,
)
from trtsmith.converter.plugin.checks.checks_gpu import GPU_CHECKS, kernel
from trtsmith.converter.plugin.checks.checks_io import IO_CHECKS
from trtsmith.converter.plugin.checks.checks_life import LIFE_CHECKS
from trtsmith.converter.plugin.checks.checks_state import STATE_CHECKS
from trtsmith.converter.plugin.host.host import Host, PluginError, PluginLibrary

CHECKS: tuple[Check, ...] = (*CREATOR_CHECKS, *STATE_CHECKS, *LIFE_CHECKS, *IO_CHECKS)


def describe(library: PluginLibrary, host: Host) -> dict[str, Any]:
    """The library as plain data: how it offers its creators, and what each says of itself."""
    creators = []
    for creator in library.creators:
        info = creator.info
        creators.append(
            {
                "kind": info.kind,
                "kind_version": list(info.kind_version),
                "family": info.family,
                "name": info.name,
                "version": info.version,
                "namespace": info.namespace,
                "fields": [
                    {"name": spec.name, "type": spec.type, "length": spec.length} for spec in creator.fields
                ],
            }
        )
    gpu = host.device().name if host.device_count() else None
    return {"path": str(library.path), "how": library.how, "creators": creators, "gpu": gpu}


def probe(session: Session) -> dict[str, Any]:
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


def run_check(session: Session, name: str, case: Any) -> dict[str, Any]:
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


def serve(requests: BinaryIO, answers: BinaryIO, library_path: Path, host_path: Path | None) -> None:
    """Answer requests until there are no more."""

    def answer(data: dict[str, Any]) -> None:
        answers.write(json.dumps(data).encode() + b"\n")
        answers.flush()

    try:
        host = Host(host_path)
        library = host.open(library_path)
        answer({"library": describe(library, host)})
    except TrtsmithError as error:
        answer({"error": error.problems[0].to_json(), "exit_code": error.exit_code})
        return
    sessions = [Session(creator) for creator in library.creators]
    while True:
        try:
            index, name, case = pickle.load(requests)
        except EOFError:
            break
        if isinstance(case, KernelCall):
            answer(run_call(sessions[index], case))
        else:
            answer(probe(sessions[index]) if name == "probe" else run_check(sessions[index], name, case))
    library.close()
    answer({"closed": True})


def main() -> None:
    # Plugins and the libraries below them print where they like; keep the answers apart.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore", RuntimeWarning)
    library_path, host_path = sys.argv[1], sys.argv[2]
    serve(sys.stdin.buffer, answers, Path(library_path), Path(host_path) if host_path else None)


if __name__ == "__main__":
    main()
