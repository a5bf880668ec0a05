"""Preparing a plugin for the caller's own memory; only enqueuing needs a GPU."""

from __future__ import annotations

import ctypes

from tests.converter.plugin.fixtures import host, library
from trtsmith.converter.plugin.host.enqueue import prepared, size_of
from trtsmith.converter.plugin.host.host import Host
from trtsmith.converter.plugin.host.plugin_values import TensorDesc


def test_a_plugin_is_ready_with_its_outputs_workspace_and_buffers() -> None:
    asked: list[int] = []

    def allocate(size: int) -> int:
        asked.append(size)
        return 4096

    with Host(host()).open(library("good_v3")) as opened:
        fields = {"repeats": 3, "weights": (1.0, 2.0)}
        with (
            opened.creator("Repeat0").create(fields) as plugin,
            prepared(plugin, [TensorDesc("float32", (2, 3, 4))], allocate) as ready,
        ):
            assert ready.outputs == (TensorDesc("float32", (6, 3, 4)),)
            assert asked == [ready.workspace_size]
            buffers = ready.buffers([16], [32], 48)
            assert [buffers.inputs[0], buffers.outputs[0], buffers.stream] == [16, 32, 48]
            assert buffers.workspace == ready.workspace == 4096
            assert ready.buffers([0], [32], None).inputs[0] is None
            assert ready.buffers([0], [32], 0).stream is None
    assert ctypes.sizeof(buffers) == 4 * ctypes.sizeof(ctypes.c_void_p)


def test_sizes_are_in_bytes() -> None:
    assert size_of(TensorDesc("bfloat16", (3, 5))) == 30
    assert size_of(TensorDesc("int64", (0, 5))) == 0
