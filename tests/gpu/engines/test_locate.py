"""The search for a faulty node with our kernels on a GPU names nothing if they are right, and replays a saved node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.locate.test_executors import X as MATRICES
from tests.converter.locate.test_executors import twice
from tests.converter.plugin.saved import X, Y, folder
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.locate.executors.kernels import OnKernels
from trtsmith.converter.locate.locate_fault import SearchGround, locate
from trtsmith.converter.locate.searched_graph import SearchOptions
from trtsmith.converter.plugin.calls import KernelCall, Kernels
from trtsmith.converter.plugin.host.host_worker import LibraryWorker
from trtsmith.converter.plugin.replay import read_case, replay
from trtsmith.converter.rewrite.rewrite import rewrite

pytestmark = pytest.mark.gpu


def test_right_kernels_in_a_model(tmp_path: Path) -> None:
    model = twice(tmp_path / "m.onnx")
    with LibraryWorker(plugin_library(), None, 60.0) as worker:
        executor = OnKernels(Kernels(worker, plugin_library()))
        ground = SearchGround(model, rewrite(model), {"x": MATRICES}, executor, "given")
        found = locate(ground, SearchOptions(), lambda text: None)
    assert found.status == "agree" and len(found.values) == 5


def test_the_outputs_of_a_call(tmp_path: Path) -> None:
    with LibraryWorker(plugin_library(), None, 60.0) as worker:
        (found,) = Kernels(worker, plugin_library()).call("MatrixInverse", KernelCall({}, (X,), tmp_path))
    np.testing.assert_allclose(found, Y, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("right", [True, False])
def test_a_saved_node(right: bool, tmp_path: Path) -> None:
    expected = Y if right else np.ascontiguousarray(Y.swapaxes(1, 2))
    found = replay(read_case(folder(tmp_path / "saved", expected=expected)), plugin_library())
    assert found is not None and found.right is right
