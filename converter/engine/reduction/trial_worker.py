"""Child side of a reduction: builds one small model after another, and keeps no engine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.engine.builder.build_worker import run
from trtsmith.converter.engine.builder.messages import Messages
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve

_HELD: set[Path] = set()
"""Plugin libraries that this process has: every trial of a reduction names the same ones, and each is loaded once."""


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Builds the requested model, without the libraries that are loaded already."""
    request = BuildRequest.from_json(request_json)
    missing = tuple(path for path in request.plugin_libraries if path not in _HELD)
    messages = Messages(log_path, request.verbose, events)
    try:
        built = run(replace(request, plugin_libraries=missing, keep=False), events, messages)
    finally:
        _HELD.update(missing)
        messages.close()
    return built.to_json()


if __name__ == "__main__":
    serve(sys.argv[1:], main)
