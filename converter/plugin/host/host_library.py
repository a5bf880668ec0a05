"""Loads and calls libtrtsmith_host.so; a status other than OK becomes a PluginError."""

from __future__ import annotations

import ctypes
from pathlib import Path

from trtsmith.converter.engine import libraries
from trtsmith.converter.model.errors import EXIT_FAILED, EXIT_USAGE, TrtsmithError, UsageError
from trtsmith.converter.plugin.host import abi
from trtsmith.importers.problem import Problem

HOST_NAME = "libtrtsmith_host.so"

_EXPECTED = {
    abi.Status.REFUSED: "the plugin to accept the call",
    abi.Status.BROKEN: "the plugin to keep the contract of its interface",
    abi.Status.USAGE: "arguments that the call can take",
    abi.Status.UNSUPPORTED: "a call that this kind of plugin has",
    abi.Status.CUDA: "every CUDA call to succeed",
    abi.Status.LOAD: "a shared library that loads by itself and offers plugin creators",
}
_FIX = {
    abi.Status.REFUSED: "pass what the plugin takes, or read the log above for its reason",
    abi.Status.BROKEN: "mend the plugin",
    abi.Status.USAGE: "change the arguments of the call",
    abi.Status.UNSUPPORTED: "ask another call, or rebuild the plugin for an interface that has this one",
    abi.Status.CUDA: "run compute-sanitizer on the plugin, and check the GPU with nvidia-smi",
    abi.Status.LOAD: "give the path of a plugin library, with the folders of the libraries that it needs on "
    "LD_LIBRARY_PATH",
}


class PluginError(TrtsmithError):
    """A plugin, its library or the host said no. status tells which; message is the host's own sentence."""

    def __init__(self, status: abi.Status, message: str, where: str, log: str = "") -> None:
        self.status = status
        self.message = message
        self.exit_code = EXIT_USAGE if status in (abi.Status.LOAD, abi.Status.USAGE) else EXIT_FAILED
        said = f"; the plugin logged: {log.strip()}" if log.strip() else ""
        super().__init__(Problem(message + said, where, _EXPECTED[status], _FIX[status]))


class Native:
    """The loaded host library. Raises UsageError where it is missing, does not load or has another ABI."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else libraries.library("trtsmith_host")
        if not self.path.is_file():
            raise UsageError(
                Problem(
                    "the plugin host library is missing",
                    str(self.path),
                    f"{HOST_NAME}, which is built with the package",
                    "build it: make setup, or pip install .",
                )
            )
        try:
            self._library = ctypes.CDLL(str(self.path.resolve()))
            abi.declare(self._library)
            found = int(self._library.tsh_abi())
        except (OSError, AttributeError) as error:
            raise UsageError(
                Problem(
                    f"the plugin host library cannot be used: {error}",
                    str(self.path),
                    f"{HOST_NAME} of this package",
                    "build it again (make, or pip install .)",
                )
            ) from error
        if found != abi.ABI:
            raise UsageError(
                Problem(
                    f"the plugin host library has ABI {found}",
                    str(self.path),
                    f"ABI {abi.ABI}, as this package calls it",
                    "build it again (make, or pip install .)",
                )
            )

    def call(self, name: str, *arguments: object, where: str) -> None:
        """Call tsh_<name>. Raises PluginError with the host's message and `where` unless it returns OK."""
        status = abi.Status(getattr(self._library, f"tsh_{name}")(*arguments))
        if status is not abi.Status.OK:
            message = self._library.tsh_last_error().decode(errors="replace")
            raise PluginError(status, message, where, self.take_log())

    def take_log(self) -> str:
        """What plugins have logged since the last call, a line each."""
        return str(self._library.tsh_take_log().decode(errors="replace"))


def text(value: bytes | None) -> str | None:
    """A string that a plugin gave; None where it gave a null pointer."""
    return None if value is None else value.decode(errors="replace")
