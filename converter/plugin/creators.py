"""Lists the plugin creators of any library, loaded in a child process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError
from trtsmith.converter.rewrite.target import Target
from trtsmith.importers.declared.declared_creators import DeclaredCreator, DeclaredField
from trtsmith.importers.problem import Problem

STATIC = "static registration"
"""How the plugin host says that a library registers its creators while it is loaded."""


@dataclass(frozen=True)
class HeldPlugins:
    """The plugins of a user's library. how: the export that gives or registers them, or STATIC.

    needs: file names of the TensorRT libraries that came with it.
    """

    path: Path
    creators: tuple[DeclaredCreator, ...]
    how: str
    needs: tuple[str, ...]

    def unloadable(self, target: Target) -> Problem | None:
        """Says why the target's plugin registry cannot load the library; None if no reason is known."""
        core = "libtensorrt_rtx" if target.is_rtx else "libnvinfer"
        macro = "REGISTER_TENSORRT_PLUGIN" if self.how == STATIC else self.how
        if self.how.startswith("get") or any(name.startswith(core) for name in self.needs):
            return None
        linked_with = f"linked with {', '.join(self.needs)}" if self.needs else "linked with no TensorRT"
        by = "themselves while it is loaded" if self.how == STATIC else f"by {self.how}"
        what = f"its creators register {by}, and it is {linked_with}"
        linked = f"link it with {core}, or e" if not target.is_rtx else "e"
        return Problem(
            f"the library will not load into {target.title}: {what}",
            f"plugin library {self.path}",
            "getCreators and setLoggerFinder, exported with C linkage",
            f"{linked}xport getCreators and setLoggerFinder in place of {macro}",
        )


def held_plugins(paths: Iterable[Path]) -> tuple[HeldPlugins, ...]:
    """Lists the plugins of the user's libraries, each loaded in a child. Raises UsageError if one does not load."""
    return tuple(_held(path, list_creators(path)) for path in paths)


def foreign_creators(paths: Iterable[Path]) -> frozenset[str]:
    """Names the plugins in a user's libraries. Raises UsageError if one cannot be loaded."""
    return frozenset(creator.name for held in held_plugins(paths) for creator in held.creators)


def _held(path: Path, described: dict[str, Any]) -> HeldPlugins:
    creators = tuple(
        DeclaredCreator(
            name=str(one["name"]),
            version=str(one["version"] or ""),
            namespace=str(one["namespace"] or ""),
            home=str(path),
            family=one["family"],
            fields=tuple(map(_field, one["fields"])),
        )
        for one in described["creators"]
    )
    return HeldPlugins(path, creators, described["how"], tuple(described["needs"]))


def _field(field: dict[str, Any]) -> DeclaredField:
    default = field["default"]
    if isinstance(default, list):
        default = tuple(default)
    return DeclaredField(str(field["name"] or ""), field["type"], field["length"], default)


def list_creators(path: str | Path, *, host: Path | None = None, init: str | None = None) -> dict[str, Any]:
    """Returns {"path", "how", "gpu", "creators": [{"name", "version", "namespace", "kind", "family", "fields"}]}.

    Loads the library in a child process. init: the function that registers its creators; None finds known ones.
    Raises UsageError where that fails.
    """
    with LibraryWorker(Path(path), host, 60.0, init) as worker:
        return worker.start()


def inspect_library(path: str | Path, *, host: Path | None = None, init: str | None = None) -> dict[str, Any]:
    """Extends list_creators() by "plugin" in each creator: the plugin's answers, or why none could be created."""
    with LibraryWorker(Path(path), host, 60.0, init) as worker:
        described = worker.start()
        for index, creator in enumerate(described["creators"]):
            try:
                creator["plugin"] = worker.ask(index, "probe", None)
            except WorkerDiedError as death:
                creator["plugin"] = {"created": False, "reason": f"the plugin {death}"}
        return described
