"""Connects to a Ray cluster or starts Ray on this machine, and explains failures."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.package_folders import PACKAGE_ROOT
from trtsmith.converter.base.process.scratch_folder import ScratchFolder

LOCAL, AUTO = "local", "auto"

_ADDRESS = "RAY_ADDRESS"
"""The variable in which Ray itself looks for an address."""

_AUTHENTICATION = "RAY_AUTH_MODE"
"""Whether a Ray asks for a token. Ray sets it, too, where it finds one."""

_LOOPBACK = "127.0.0.1"

_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0, a Ray that is started takes 127.0.0.1 for its address, on Linux too. Otherwise it listens on all addresses."""

_PORT_S = 3.0
"""For a connection to the port. A cluster in the same building answers within milliseconds."""

_JOIN_S = 20.0
"""For the whole of joining, which takes 2 s on an idle machine and may take 10 on a busy one. Ray's own limit is 2 minutes,
at whose end it ends the process."""

_SOCKETS_MOST = 43
"""Characters of the folder below which Ray makes sockets: their paths may have 107, and Ray adds 64."""

_QUIET: Mapping[str, Any] = {
    "log_to_driver": False,
    "configure_logging": False,
    "logging_level": logging.CRITICAL,
}

_FORMS = "local; auto; or HOST:PORT, as `ray start --head` shows it"

_NO_CLUSTER = (
    "there is no Ray cluster: {}",
    _FORMS,
    "ray start --head on the first machine, and `ray start --address=HOST:PORT` on the others; or --on local, which "
    "starts a Ray here",
)

_REFUSALS = {
    "ersion mismatch": (
        "the cluster has another Ray or Python: {}",
        "the same Ray, and the same minor version of Python, on every machine",
        "install the cluster's versions here, or these there",
    ),
    "uthentication": (
        "the cluster does not let this machine in: {}",
        "the token that the cluster was started with",
        "copy ~/.ray/auth_token of its head here, or set RAY_AUTH_TOKEN_PATH to a file with the token",
    ),
    "node": (
        "this machine is no node of the cluster: {}",
        "a Ray on this machine that belongs to the cluster: files and results go through it",
        "ray start --address=HOST:PORT --num-cpus=0: it is a node that runs no tasks then; `ray stop` ends that",
    ),
}
"""By what Ray says where a cluster cannot be joined: what, expected, fix."""

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
    """Connects this process to Ray, as a context manager. Ray that it started is stopped; a cluster keeps running.

    on:   "local", "auto" for the cluster of which this machine is a node, or the HOST:PORT of a cluster's head.
    cpus: cores of a Ray that is started; None: all.

    ray: the module. Entering raises UsageError where there is no Ray, or no cluster.
    """

    def __init__(self, on: str, cpus: int | None = None) -> None:
        self.on = on
        self.ray: Any = None
        self._cpus = cpus
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> RayConnection:
        address = _checked_address(self.on)
        try:
            import ray  # only who asks for a Ray has it imported
        except ImportError as error:
            raise _problem(
                self.on,
                f"Ray is not installed in this Python: {error}",
                "the package ray",
                "pip install 'trtsmith[fleet]'; or leave --on out: processes of this machine need no Ray",
            ) from error
        self.ray = ray
        with contextlib.ExitStack() as stack, _handler_kept():
            logger = logging.getLogger("ray")  # what Ray has to say is in its errors
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
            if ray.is_initialized():
                self._check_own(address)
            elif address == LOCAL:
                stack.enter_context(self._started())
            else:
                _rehearse(self.on, address)
                with _environment({}):
                    ray.init(address=address, **_QUIET)
                stack.callback(ray.shutdown)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _check_own(self, address: str) -> None:
        """This process is a driver of Ray already: that is used."""
        own = self.ray.get_runtime_context().gcs_address
        if address not in (AUTO, own):
            raise _problem(
                self.on,
                "this process is already connected to a Ray cluster, and cannot use a second one",
                f"{AUTO}, or {own}",
                f"--on {AUTO}, which uses it; or call ray.shutdown() first",
            )

    @contextlib.contextmanager
    def _started(self) -> Iterator[None]:
        """A Ray on the loopback address that asks for a token, which this process forgets in the end."""
        ray = self.ray
        path = os.pathsep.join(filter(None, (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
        variables = {
            "PYTHONPATH": path,
            _AUTHENTICATION: "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            _CLUSTERS: "0",
        }
        usual = Path(tempfile.gettempdir())
        room = len(str(usual)) + len("/trtsmith-ray-01234567.scratch")
        short = usual if room <= _SOCKETS_MOST else Path("/tmp")
        try:
            with ScratchFolder("ray", short) as folder:
                try:
                    with _environment(variables), contextlib.ExitStack() as loopback:
                        # for a Ray that was imported, and has read the environment, before
                        constants = ray._private.ray_constants
                        loopback.callback(
                            setattr, constants, "ENABLE_RAY_CLUSTER", constants.ENABLE_RAY_CLUSTER
                        )
                        constants.ENABLE_RAY_CLUSTER = False
                        _require_token(ray)
                        ray.init(
                            address=LOCAL,
                            num_cpus=self._cpus,
                            include_dashboard=False,
                            _node_ip_address=_LOOPBACK,
                            _temp_dir=folder,
                            **_QUIET,
                        )
                except (Exception, SystemExit) as error:
                    if isinstance(error, UsageError):
                        raise
                    raise _problem(
                        LOCAL,
                        f"Ray does not start: {_first_line(str(error))}",
                        "a Ray on this machine",
                        "free some memory and room in /dev/shm and in /tmp; or leave --on out: processes of this machine "
                        "need no Ray",
                    ) from error
                try:
                    address = ray.get_runtime_context().gcs_address
                    if not address.startswith(f"{_LOOPBACK}:"):
                        raise _open_to_others(f"Ray {ray.__version__} listens at {address}")
                    yield
                finally:
                    ray.shutdown()
        finally:
            with contextlib.suppress(ImportError):  # of a Ray that has no tokens
                _read_environment()


def _checked_address(on: str) -> str:
    """What `ray.init` is given. UsageError for what is no address, and for one at which nothing listens."""
    address = (os.environ.get(_ADDRESS) or AUTO) if on == AUTO else on
    where = on if address == on else f"{on}, {_ADDRESS}={address}"
    if address in (LOCAL, AUTO):
        return address
    if address.startswith("ray://"):
        raise _problem(
            where,
            "the Ray client is not supported: every model and engine would pass through its server's memory, and a "
            "connection that breaks would lose the whole batch",
            "the HOST:PORT of the cluster's head, as `ray start --head` shows it",
            "run `ray start --address=HOST:PORT --num-cpus=0` here, which makes this machine a node that runs no tasks, "
            "then --on auto; or run the command on a node of the cluster",
        )
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        what = f"{address!r} is not the address of a Ray cluster"
        raise _problem(where, what, _FORMS, "--on auto on a node of the cluster")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PORT_S).close()
    except OSError as error:
        what, expected, fix = _NO_CLUSTER
        why = f"nothing listens at {address}: {error.strerror or error}"
        raise _problem(where, what.format(why), expected, fix) from error
    return address


def _rehearse(on: str, address: str) -> None:
    """Join the cluster in a process that can be ended: where it cannot be joined, Ray waits for minutes, and then ends the
    process in which it is. UsageError says what came of it."""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _REHEARSAL, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_JOIN_S,
            env={**os.environ, "RAY_GCS_SERVER_REQUEST_TIMEOUT_SECONDS": "8"},
        )
        said = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        said = ["", f"no Ray answers at {address} within {_JOIN_S:g} s"]
    except (ValueError, IndexError):
        said = ["", f"joining it ends with exit code {done.returncode}"]
    if said is not None:
        text = f"{said[1]} ({said[0]})" if said[0] else said[1]
        kinds = (one for part, one in _REFUSALS.items() if part in text)
        what, expected, fix = next(kinds, _NO_CLUSTER)
        raise _problem(on, what.format(_first_line(text)), expected, fix)


def _require_token(ray: Any) -> None:
    """UsageError if the installed Ray admits clients without a token. The environment names one."""
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


def _open_to_others(what: str) -> UsageError:
    return _problem(
        LOCAL,
        f"{what}: anyone who can reach this machine could run programs on it",
        "a Ray that listens on the loopback address only and asks for a token, as Ray 2.60 does",
        "pip install --upgrade 'trtsmith[fleet]'; or leave --on out: processes of this machine need no Ray",
    )


def _problem(on: str, what: str, expected: str, fix: str) -> UsageError:
    return UsageError(what, f"--on {on}", expected, fix)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")


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
