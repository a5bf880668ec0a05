"""The server of docs/examples over HTTP. Its engine runs on the fake TensorRT: there is no GPU."""

from __future__ import annotations

import io
import runpy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import trtsmith
from tests.docs.samples import EXAMPLES


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, open_runner: Callable[..., Any]) -> Iterator[TestClient]:
    asked = []

    def load(path: str, **options: Any) -> Any:
        asked.append(path)
        return open_runner(b"double", **options)

    monkeypatch.setattr(trtsmith.Runner, "load", load)
    monkeypatch.setenv("ENGINE", "detector.plan")
    app = runpy.run_path(str(EXAMPLES / "server" / "detector_server.py"))["app"]
    with TestClient(app) as client:
        assert asked == ["detector.plan"]
        yield client


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def test_requests_at_once_get_their_own_outputs(client: TestClient) -> None:
    def ask(number: int) -> bool:
        x = np.full((1 + number % 8, 3), number, np.float32)
        answer = client.post("/infer", content=_npz(x=x))
        assert answer.status_code == 200, answer.text
        return np.array_equal(np.load(io.BytesIO(answer.content))["y"], 2 * x)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(40)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no archive", "not an .npz file"),
        (_npz(x=np.zeros((1, 4), np.float32)), "x"),
        (_npz(images=np.zeros((1, 3), np.float32)), "images"),
    ],
)
def test_what_does_not_fit_is_the_clients_fault(client: TestClient, content: bytes, said: str) -> None:
    answer = client.post("/infer", content=content)
    assert answer.status_code == 422 and said in answer.json()["detail"]
    x = np.ones((1, 3), np.float32)
    assert client.post("/infer", content=_npz(x=x)).status_code == 200
