"""A real Triton server over HTTP. It runs our model.py, with onnxruntime in place of the engine: there is no GPU."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import trtsmith
from envsetup import ROOT
from envsetup.wheels import fetch, pinned
from tests.converter.models import parsed
from trtsmith.converter.base.options.shapes import parse_shapes

PINS = ROOT / "tests" / "contract" / "triton_server.txt"
MODEL = "(float[N, 3] x, double[N] scale) => (float[N, 3] y, double[N] scaled) { y = Add(x, x) scaled = Neg(scale) }"

STAND_IN = """
import os, pathlib, sys
sys.path += os.environ["PATHS"].split(os.pathsep)
import onnxruntime, trtsmith

class Pool:
    def __init__(self, engine): self.session = onnxruntime.InferenceSession(os.environ["MODEL"])
    def warm_up(self): pass
    def __call__(self, feeds):
        print("ROWS", len(feeds["x"]), flush=True)
        if (feeds["x"] < 0).any(): raise trtsmith.UsageError("below zero", "x", "others", "send others")
        return dict(zip((o.name for o in self.session.get_outputs()), self.session.run(None, feeds)))

class Runner:
    def pool(self, sessions): return Pool(self)
    def close(self): print("CLOSED", flush=True)

def load(engine, *, device):
    folder = pathlib.Path(engine).parent
    assert {p.name for p in folder.iterdir()} >= {"model.manifest.json", "model.plan"}
    return Runner()

trtsmith.Runner.load = load
from written import TritonPythonModel
"""
"""What the server loads: our model.py, with a Runner that needs no GPU. The server's Python ignores PYTHONPATH."""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _ask(url: str, **arrays: Any) -> Any:
    given = [
        {"name": name, "shape": [len(rows), 3 if name == "x" else 1], "datatype": "FP32" if name == "x" else "FP64",
         "data": rows}
        for name, rows in arrays.items()
    ]  # fmt: skip
    request = urllib.request.Request(url, json.dumps({"inputs": given}).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return {output["name"]: output["data"] for output in json.load(answer)["outputs"]}
    except urllib.error.HTTPError as error:
        return error.read().decode()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of the model, and the server's log."""
    number = f"{sys.version_info.major}.{sys.version_info.minor}"
    libraries = Path(sysconfig.get_config_var("LIBDIR"))
    if not (libraries / f"libpython{number}.so.1.0").exists() or sys.version_info >= (3, 13):
        pytest.skip("Triton's Python backend has no numpy for this Python, or no libpython to start with")
    packages = [
        fetch(name, lines, ROOT / ".cache" / "triton" / f"cp{number}") for name, lines in pinned(PINS).items()
    ]
    server = packages[0] / "pytriton" / "tritonserver"
    stub = server / "python_backend_stubs" / number / "triton_python_backend_stub"
    for program in (server / "bin" / "tritonserver", stub):
        program.chmod(0o755)
    with suppress(FileExistsError):
        (server / "backends" / "python" / stub.name).symlink_to(stub)
    model = parsed(tmp_path / "given.onnx", MODEL)
    done = trtsmith.convert(
        model.path, output=tmp_path / "net.plan", flavour="tensorrt_rtx",
        shapes=parse_shapes(["x=1x3:2x3:8x3", "scale=1:2:8"]),
    )  # fmt: skip
    assert done.passed
    written = trtsmith.bundle(tmp_path / "net.plan", tmp_path / "models", name="net", queue_delay_us=300000)
    assert written.batch == 8
    config = written.path / "config.pbtxt"
    config.write_text(config.read_text().replace("KIND_GPU", "KIND_CPU"))
    served = written.path / "1" / "model.py"
    served.rename(served.with_name("written.py"))
    served.write_text(STAND_IN)
    http, grpc, metrics = _free_ports(3)
    venv.create(tmp_path / "python")
    (tmp_path / "python" / "lib" / f"python{number}" / "site-packages" / "numpy.pth").write_text(
        str(packages[1])
    )
    environment = os.environ | {
        "PATHS": os.pathsep.join(path for path in sys.path if path), "MODEL": str(model.path),
        "PATH": os.pathsep.join([str(tmp_path / "python" / "bin"), os.environ["PATH"]]), "LD_LIBRARY_PATH": str(libraries),
    }  # fmt: skip
    command = [
        server / "bin" / "tritonserver", f"--model-repository={tmp_path / 'models'}", f"--http-port={http}",
        f"--grpc-port={grpc}", f"--metrics-port={metrics}", f"--backend-directory={server / 'backends'}",
        "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--exit-timeout-secs=10",
    ]  # fmt: skip
    log = tmp_path / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, env=environment, stdout=stream, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{http}/v2/models/net"
    try:
        _wait_until_ready(url, process, log)
        yield f"{url}/infer", log
    finally:
        process.terminate()
        process.wait(60)
    assert "CLOSED" in log.read_text()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=5):
                return
        except OSError:
            assert process.poll() is None, log.read_text()[-5000:]
            time.sleep(0.1)
    pytest.fail(log.read_text()[-5000:])


def test_requests_are_joined_get_their_own_rows_and_an_engines_refusal(served: tuple[str, Path]) -> None:
    url, log = served

    def ask(number: int) -> bool:
        rows = [[float(number), row, 0.5] for row in range(1 + number % 2)]
        found = _ask(url, x=rows, scale=[number] * len(rows))
        expected = [2 * value for row in rows for value in row]
        assert found == {"y": expected, "scaled": [-number] * len(rows)}
        return True

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(ask, range(12)))
    sizes = [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("ROWS")]
    assert sum(sizes) == 18 and len(sizes) < 12
    assert "below zero" in _ask(url, x=[[-1.0, 2.0, 3.0]], scale=[1.0])
    assert _ask(url, x=[[1.0, 2.0, 3.0]], scale=[1.0])["y"] == [2.0, 4.0, 6.0]
