"""Checks the address of a Ray cluster before this process joins it, and says in words why it cannot be joined."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

LOCAL = "local"
AUTO = "auto"

_ADDRESS = "RAY_ADDRESS"
"""The variable in which Ray itself looks for an address."""

_PORT_S = 3.0
"""For a connection to the port. A cluster in the same building answers within milliseconds."""

_JOIN_S = 20.0
"""For the whole of joining, which takes 2 s on an idle machine and may take 10 on a busy one. Ray's own limit is 2 minutes,
at whose end it ends the process."""

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


def checked_address(on: str) -> str:
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
            Problem(
                f"{address!r} is no address of a Ray cluster",
                where,
                _FORMS,
                "--on auto on a node of the cluster",
            )
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PORT_S).close()
    except OSError as error:
        raise _not_there(where, f"nothing listens at {address}: {error.strerror or error}") from error
    return address


_FORMS = "local; auto; or HOST:PORT, as `ray start --head` shows it"


def rehearse(on: str, address: str) -> None:
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
            env={**os.environ, "RAY_GCS_SERVER_REQUEST_TIMEOUT_SECONDS": "8"},
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
                f"the cluster does not let this machine in: {first_line(text)}",
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
                f"ray start --address={address} --num-cpus=0: it is a node that runs no tasks then; `ray stop` ends that",
            )
        )
    raise _not_there(where, first_line(text) or kind)


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


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")
