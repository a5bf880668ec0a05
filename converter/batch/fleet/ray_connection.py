"""Connects to a Ray cluster, or starts a Ray on this machine, and says in words why that does not work."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.fleet.leased_folder import LeasedFolder
from trtsmith.converter.batch.fleet.ray_address import AUTO, LOCAL, checked_address, first_line, rehearse
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.process.package_folders import PACKAGE_ROOT
from trtsmith.importers.problem import Problem

_AUTHENTICATION = "RAY_AUTH_MODE"
"""Whether a Ray asks for a token. Ray sets it, too, where it finds one."""

_LOOPBACK = "127.0.0.1"

_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0, a Ray that is started takes 127.0.0.1 for its address, on Linux too. Otherwise it listens on all addresses."""

_SOCKETS_MOST = 40
"""Characters of the folder below which Ray makes sockets: their paths may have 107, and Ray adds 63."""

_QUIET: Mapping[str, Any] = {
    "log_to_driver": False,
    "configure_logging": False,
    "logging_level": logging.CRITICAL,
}


class RayConnection:
    """This process as a driver of Ray, in a with statement. What was started for it is ended; a cluster stays as it was.

    on:   "local", "auto" for the cluster of which this machine is a node, or the HOST:PORT of a cluster's head.
    cpus: cores of a Ray that is started; None: all.

    ray: the module. Entering raises UsageError where there is no Ray, or no cluster.
    """

    def __init__(self, on: str, cpus: int | None = None) -> None:
        self.on = on
        self.ray: Any = None
        self._cpus = cpus
        self._folder: LeasedFolder | None = None
        self._mine = False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> RayConnection:
        address = checked_address(self.on)
        self.ray = ray_module(self.on)  # sets its logger's level
        with contextlib.ExitStack() as stack:
            stack.enter_context(_quiet_logger())
            with _handler_kept():
                self._connect(address)
            self._stack = stack.pop_all()
        return self

    def _connect(self, address: str) -> None:
        if self.ray.is_initialized():
            self._join_own(address)
        elif address == LOCAL:
            self._start()
        else:
            rehearse(self.on, address)
            with _environment({}):
                self.ray.init(address=address, **_QUIET)
            self._mine = True

    def __exit__(self, *error: object) -> None:
        if self._mine:
            self._mine = False
            self.ray.shutdown()
        self._forget()
        self._stack.close()

    def _join_own(self, address: str) -> None:
        """This process is a driver of Ray already: that is used."""
        if address in (AUTO, self.ray.get_runtime_context().gcs_address):
            return
        raise UsageError(
            Problem(
                "this process is connected to a Ray already, and can have one only",
                f"--on {self.on}",
                f"{AUTO}, or {self.ray.get_runtime_context().gcs_address}",
                f"--on {AUTO}, which uses it; or call ray.shutdown() before",
            )
        )

    def _start(self) -> None:
        self._folder = LeasedFolder("trtsmith-ray-", secrets.token_hex(4), _short_folder())
        path = os.pathsep.join(filter(None, (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
        variables = {
            "PYTHONPATH": path,
            _AUTHENTICATION: "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            _CLUSTERS: "0",
        }
        try:
            with _environment(variables), _only_loopback(self.ray):
                _require_token(self.ray)
                self.ray.init(
                    address=LOCAL,
                    num_cpus=self._cpus,
                    include_dashboard=False,
                    _node_ip_address=_LOOPBACK,
                    _temp_dir=str(self._folder.path),
                    **_QUIET,
                )
                self._require_loopback()
        except UsageError:
            self._forget()
            raise
        except (Exception, SystemExit) as error:
            self._forget()
            raise UsageError(
                Problem(
                    f"Ray does not start: {first_line(str(error))}",
                    "--on local",
                    "a Ray on this machine",
                    "free some memory and room in /dev/shm and in /tmp; or leave --on out: a pool of processes needs no Ray",
                )
            ) from error
        self._mine = True

    def _forget(self) -> None:
        """Nothing is left of a Ray that was started, or was not, and this process knows its token no more."""
        if self._folder is not None:
            with contextlib.suppress(ImportError):  # of a Ray that has no tokens
                _read_environment()
            self._folder.remove()
            self._folder = None

    def _require_loopback(self) -> None:
        """UsageError, and no Ray, where the one that was started can be reached from other machines."""
        address = self.ray.get_runtime_context().gcs_address
        if not address.startswith(f"{_LOOPBACK}:"):
            self.ray.shutdown()
            raise _open_to_others(f"Ray {self.ray.__version__} listens at {address}")


def _require_token(ray: Any) -> None:
    """UsageError where the installed Ray would let in whoever has no token. The environment names one."""
    said = f"Ray {ray.__version__} asks nobody for a token"
    try:
        from ray._raylet import (  # type: ignore[attr-defined]  # compiled
            AuthenticationMode,
            get_authentication_mode,
        )
    except ImportError as error:
        raise _open_to_others(said) from error
    _read_environment()
    if get_authentication_mode() != AuthenticationMode.TOKEN:
        raise _open_to_others(said)


def _read_environment() -> None:
    """Ray reads once whether there is a token, and which: again, for this one and for the next."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def _only_loopback(ray: Any) -> Iterator[None]:
    """For a Ray that was imported, and has read the environment, before."""
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _open_to_others(what: str) -> UsageError:
    return UsageError(
        Problem(
            f"{what}: whoever reaches this machine could run programs on it",
            "--on local",
            "a Ray that listens on the loopback address only and asks for a token, as Ray 2.60 does",
            "pip install --upgrade 'trtsmith[fleet]'; or leave --on out: a pool of processes on this machine needs no Ray",
        )
    )


def ray_module(on: str) -> Any:
    """Import Ray. UsageError where it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            Problem(
                f"Ray is not installed in this Python: {error}",
                f"--on {on}",
                "the package ray",
                "pip install 'trtsmith[fleet]'; or leave --on out: a pool of processes on this machine needs no Ray",
            )
        ) from error
    return ray


def _short_folder() -> Path:
    """Where a Ray's own files go: sockets are among them, whose paths have to be short."""
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) < _SOCKETS_MOST - len("/trtsmith-ray-01234567") else Path("/tmp")


@contextlib.contextmanager
def _handler_kept() -> Iterator[None]:
    """Ray sets a handler for SIGTERM, which ends this process in its own way."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _quiet_logger() -> Iterator[None]:
    """What Ray has to say is in its errors."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables for processes that are started in the block."""
    before = {name: os.environ.get(name) for name in (*variables, _AUTHENTICATION)}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
