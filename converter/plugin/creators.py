"""Lists the plugin creators of any library, loaded in a child process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError


def foreign_creators(paths: Iterable[Path]) -> frozenset[str]:
    """Names of the plugins in a user's libraries. UsageError if one cannot be loaded."""
    return frozenset(str(creator["name"]) for path in paths for creator in list_creators(path)["creators"])


def list_creators(path: str | Path, *, host: Path | None = None) -> dict[str, Any]:
    """{"path", "how", "gpu", "creators": [{"name", "version", "namespace", "kind", "family", "fields"}]}.

    Loads the library in a child process. Raises UsageError where that fails.
    """
    with LibraryWorker(Path(path), host, 60.0) as worker:
        return worker.start()


def inspect_library(path: str | Path, *, host: Path | None = None) -> dict[str, Any]:
    """list_creators() with "plugin" in each creator: what a plugin says of itself, or why none could be created."""
    with LibraryWorker(Path(path), host, 60.0) as worker:
        described = worker.start()
        for index, creator in enumerate(described["creators"]):
            try:
                creator["plugin"] = worker.ask(index, "probe", None)
            except WorkerDiedError as death:
                creator["plugin"] = {"created": False, "reason": f"the plugin {death}"}
        return described
