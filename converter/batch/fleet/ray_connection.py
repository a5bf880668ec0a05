"""Connects to a Ray cluster, or starts a Ray on this machine, and says in words why that does not work."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.fleet.leased_folder import LeasedFolder
from trtsmith.converter.engine.libraries import PACKAGE_ROOT
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

LOCAL = "local"
AUTO = "auto"

_ADDRESS = "RAY_ADDRESS"
"""The variable in which Ray itself looks for an address."""

_AUTHENTICATION = "RAY_AUTH_MODE"
"""Of Ray 2.52 and later. A token that it makes itself it leaves in ~/.ray."""

_PORT_S = 3.0
"""For a connection to the port. A cluster in the same building answers within milliseconds."""

_JOIN_S = 20.0
"""For the whole of joining, which takes 2 s on an idle machine and may take 10 on a busy one. Ray's own limit is 2 minutes,
at whose end it ends the process."""

_SOCKETS_MOST = 40
"""Characters of the folder below which Ray makes sockets: their paths may have 107, and Ray adds 63."""

_QUIET: Mapping[str, Any] = {
    "log_to_driver": False,
    "configure_logging": False,
    "logging_level": logging.CRITICAL,
}
_REHEARSAL = """
import json, sys
import ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False, logging_level="CRITICAL")
    ray.shutdown()
    said = None
except BaseException as error:
    said = [type(error).__name__, str(error)]
print("\\n" + json.dumps(said))
"""


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

    def __enter__(self) -> RayConnection:
        address = _checked_address(self.on)
        self.ray = ray_module(self.on)
        if self.ray.is_initialized():
            self._join_own(address)
        elif address == LOCAL:
            self._start()
        else:
            _rehearse(self.on, address)
            with _environment({"RAY_USAGE_STATS_ENABLED": "0"}):
                self.ray.init(address=address, **_QUIET)
            self._mine = True
        return self

    def __exit__(self, *error: object) -> None:
        if self._mine:
            self._mine = False
            self.ray.shutdown()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

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
        variables = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": path}
        if _AUTHENTICATION not in os.environ:  # a Ray without it runs the code of whoever reaches its port
            variables |= {_AUTHENTICATION: "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        try:
            with _environment(variables):
                self.ray.init(
                    address=LOCAL,
                    num_cpus=self._cpus,
                    include_dashboard=False,
                    _temp_dir=str(self._folder.path),
                    **_QUIET,
                )
        except (Exception, SystemExit) as error:
            self._folder.remove()
            raise UsageError(
                Problem(
                    f"Ray does not start: {_first_line(str(error))}",
                    "--on local",
                    "a Ray on this machine",
                    "free some memory and room in /dev/shm and in /tmp; or leave --on out: a pool of processes needs no Ray",
                )
            ) from error
        self._mine = True


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


def _checked_address(on: str) -> str:
    """What `ray.init` is given. UsageError for what is no address, and for one at which nothing listens."""
    address = (os.environ.get(_ADDRESS) or AUTO) if on == AUTO else on
    where = f"--on {on}" if address == on else f"--on {on}, {_ADDRESS}={address}"
    if address in (LOCAL, AUTO):
        return address
    if address.startswith("ray://"):
        raise UsageError(
            Problem(
                "the Ray client is not supported: every model and engine would pass through its server's memory, and a "
                "connection that breaks would lose the whole batch",
                where,
                "the HOST:PORT of the cluster's head, as `ray start --head` shows it",
                "run `ray start --address=HOST:PORT --num-cpus=0` here, which makes this machine a node that runs no tasks, "
                "then --on auto; or run the command on a node of the cluster",
            )
        )
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise UsageError(
            Problem(f"{address!r} is no address of a Ray cluster", where, _FORMS, "--on auto on a node of the cluster")
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PORT_S).close()
    except OSError as error:
        raise _not_there(where, f"nothing listens at {address}: {error.strerror or error}") from error
    return address


_FORMS = "local; auto; or HOST:PORT, as `ray start --head` shows it"


def _rehearse(on: str, address: str) -> None:
    """Join the cluster in a process that can be ended: where it cannot be joined, Ray waits for minutes, and then ends the
    process in which it is. UsageError says what came of it."""
    where = f"--on {on}"
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _REHEARSAL, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_JOIN_S,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_GCS_SERVER_REQUEST_TIMEOUT_SECONDS": "8"},
        )
    except subprocess.TimeoutExpired:
        raise _not_there(where, f"no Ray answers at {address} within {_JOIN_S:g} s") from None
    try:
        said = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        said = ["", f"joining it ends with exit code {done.returncode}"]
    if said is None:
        return
    kind, text = said
    if "ersion mismatch" in text:
        raise UsageError(
            Problem(
                f"the cluster has another Ray or Python: {' '.join(text.split())}",
                where,
                "the same Ray, and the same minor version of Python, on every machine",
                "install the cluster's versions here, or these there",
            )
        )
    if kind == "AuthenticationError" or "uthentication" in text:
        raise UsageError(
            Problem(
                f"the cluster does not let this machine in: {_first_line(text)}",
                where,
                "the token that the cluster was started with",
                "copy ~/.ray/auth_token of its head here, or set RAY_AUTH_TOKEN_PATH to a file with the token",
            )
        )
    if "No node info found" in text or "node to connect" in text:
        raise UsageError(
            Problem(
                f"this machine is no node of the cluster at {address}",
                where,
                "a Ray on this machine that belongs to the cluster: files and results go through it",
                f"ray start --address={address} --num-cpus=0, which makes it a node that runs no tasks; `ray stop` ends that",
            )
        )
    raise _not_there(where, _first_line(text) or kind)


def _not_there(where: str, why: str) -> UsageError:
    return UsageError(
        Problem(
            f"there is no Ray cluster: {why}",
            where,
            _FORMS,
            "ray start --head on the first machine, and `ray start --address=HOST:PORT` on the others; or --on local, which "
            "starts a Ray here",
        )
    )


def _short_folder() -> Path:
    """Where a Ray's own files go: sockets are among them, whose paths have to be short."""
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) < _SOCKETS_MOST - len("/trtsmith-ray-01234567") else Path("/tmp")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables for processes that are started in the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
