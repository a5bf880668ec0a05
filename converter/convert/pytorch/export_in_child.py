"""Exports a saved program or a factory in a child process, which isolates its output, exceptions and crashes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.convert.pytorch.torch_source import TorchFactory, TorchFile
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.importers.problem import Problem

_MOST_LINES = 200
_LAST_WORDS = 300


def export_in_child(source: TorchFile | TorchFactory, folder: Path, progress: Callable[[str], None]) -> None:
    """Fills the folder as exported_model.write_exported does. Raises TrtsmithError for all failures of the child."""
    request = {
        "path": str(source.path.absolute()) if isinstance(source, TorchFile) else "",
        "factory": source.name if isinstance(source, TorchFactory) else "",
        "name": str(source),
        "folder": str(folder),
        "home": os.getcwd(),
    }
    if isinstance(source, TorchFile):
        _check_file(source.path)
    log = folder / "export.log"
    try:
        run_child(
            "trtsmith.converter.convert.pytorch.export_worker",
            json.dumps(request),
            "",
            timeout_s=source.timeout_s,
            log_path=log,
            on_progress=progress,
        )
    except ChildDied as death:
        raise ConversionError(_died(source, death)) from death
    finally:
        if isinstance(source, TorchFactory) and log.exists():  # the user's own code may have something to say
            said = log.read_text(errors="replace").splitlines()
            for line in said[:_MOST_LINES]:
                progress(f"{source}: {line}")


def _check_file(path: Path) -> None:
    try:
        with path.open("rb"):
            return
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the program cannot be read: {getattr(error, 'strerror', None) or error}",
            str(path),
            "a file that torch.export.save wrote",
            "correct the path",
        ) from error


def _died(source: TorchFile | TorchFactory, death: ChildDied) -> Problem:
    if death.timed_out:
        return Problem(
            f"loading and exporting {death.how}, while {death.phase}",
            str(source),
            f"an export within {source.timeout_s:g} s",
            "--export-timeout SECONDS gives it more time, if the program is right",
        )
    said = " ".join(death.log.split())[-_LAST_WORDS:]
    return Problem(
        f"the process that exports {death.how}, while {death.phase}" + (f"; it said: {said}" if said else ""),
        str(source),
        "a program that PyTorch loads and exports",
        "export it again with the PyTorch that is installed here, or convert the module in Python",
    )
