"""A missing cluster is reported within seconds; a Ray that was started ends with its driver, even after a kill.

A cluster is joined in test_fleet.py, which has one.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import checkout_environment, has_ended
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.scratch_folder import remove_left_folders
from trtsmith.converter.batch import ray_connection
from trtsmith.converter.batch.ray_connection import RayConnection

LOCAL = """
import os, sys, time
from trtsmith.converter.batch.ray_connection import RayConnection
import ray, psutil
with RayConnection("local", 1) as connection:
    print(connection.ray.get(connection.ray.remote(lambda: os.getpid()).remote()),
          *(process.pid for process in psutil.Process().children(recursive=True)
            if process.cmdline()[0] not in sys.argv[2:]), flush=True)
    time.sleep(float(sys.argv[1]))
assert not ray.is_initialized() and not {"RAY_AUTH_TOKEN", "RAY_AUTH_MODE"} & os.environ.keys()
"""

AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""They try for 60 s to report the end of a Ray that was killed to that Ray, and then end."""

SERVED = """
import os, psutil, sys
from trtsmith.converter.batch.ray_connection import RayConnection
for _ in range(2):  # each has a token of its own
    with RayConnection("local", 1) as connection:
        assert connection.ray.get(connection.ray.remote(lambda: 3).remote()) == 3
        if _:
            here = psutil.Process()
            listening = {c.laddr.ip for p in (here, *here.children(recursive=True))
                         for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN}
            print(connection.ray.get_runtime_context().gcs_address, *listening, flush=True)
            sys.stdin.read()
    assert os.environ["RAY_AUTH_MODE"] == "disabled" and "RAY_AUTH_TOKEN" not in os.environ
"""

CLIENT = """
import sys
from ray._raylet import GcsClient
print(len(GcsClient(address=sys.argv[1]).get_all_node_info(timeout=60)))
"""


def problem_of(on: str) -> str:
    with pytest.raises(UsageError) as caught, RayConnection(on):
        pass
    (problem,) = caught.value.problems
    assert problem.where.startswith("--on") and problem.fix and problem.expected
    return problem.what


def test_addresses_that_are_none() -> None:
    for on in ("somewhere", "host:", ":1", "host:port", "host:70000", ""):
        assert "is not the address of a Ray cluster" in problem_of(on)
    assert "the Ray client is not supported" in problem_of("ray://host:10001")


def test_an_address_at_which_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    started = time.monotonic()
    assert f"nothing listens at {address}" in problem_of(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert f"nothing listens at {address}" in problem_of("auto")
    assert time.monotonic() - started < 10


def test_an_address_at_which_something_else_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_connection, "_JOIN_S", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert "no Ray answers at" in problem_of(f"127.0.0.1:{server.getsockname()[1]}")


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as caught, RayConnection("local"):
        pass
    assert "pip install 'trtsmith[fleet]'" in caught.value.problems[0].fix


def test_ray_is_imported_only_where_it_is_used() -> None:
    code = "import sys; import trtsmith.converter.batch.fleet; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=checkout_environment())


@pytest.mark.parametrize("killed", [False, True])
def test_a_ray_that_is_started_is_gone_with_its_driver(
    killed: bool,
    short_folder: Path,
    start: Callable[..., subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray")
    home = short_folder / "home"
    home.mkdir()
    environment = checkout_environment(TMPDIR=short_folder, HOME=home)
    driver = start(
        [sys.executable, "-c", LOCAL, *(("600", *AGENTS) if killed else ("0",))],
        stdout=subprocess.PIPE,
        env={name: value for name, value in environment.items() if not name.startswith("RAY_")},
    )
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) > 3
    if killed:
        assert [path.name[:13] for path in short_folder.iterdir() if path != home] == ["trtsmith-ray-"]
        driver.send_signal(signal.SIGKILL)
    assert driver.wait() == (-signal.SIGKILL if killed else 0)
    assert all(has_ended(pid) for pid in pids)
    if killed:  # the next command removes its folder
        monkeypatch.setattr(tempfile, "tempdir", str(short_folder))
        remove_left_folders()
    assert list(short_folder.iterdir()) == [home] and [*home.iterdir()] == []


def test_a_local_ray_lets_in_nobody_without_its_token(
    short_folder: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    pytest.importorskip("ray")
    plain = {name: value for name, value in checkout_environment().items() if not name.startswith("RAY_")}
    plain |= {"HOME": str(short_folder), "TMPDIR": str(short_folder), "RAY_AUTH_MODE": "disabled"}
    driver = start([sys.executable, "-c", SERVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=plain)
    assert driver.stdout is not None
    address, *listening = driver.stdout.readline().split()
    assert {ip.removeprefix("::ffff:") for ip in (address.rpartition(":")[0], *listening)} == {"127.0.0.1"}
    for more in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}):
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, address], env=plain | more, capture_output=True, text=True
        )
        assert client.returncode == 1 and "InvalidAuthToken" in client.stderr and not client.stdout
    driver.communicate()
    assert driver.returncode == 0


@pytest.mark.parametrize("missing", ["get_authentication_mode", "the mode"])
def test_a_ray_that_asks_for_no_token_is_not_started(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    import ray._raylet

    if missing == "the mode":
        monkeypatch.setattr(ray._raylet, "get_authentication_mode", lambda: None)
    else:
        monkeypatch.delattr(ray._raylet, missing)
    assert "asks nobody for a token: anyone who can reach this machine could run programs" in problem_of(
        "local"
    )
    assert not ray.is_initialized()
