"""Signals end the process while code of others runs in it, and are Python's again behind that."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.processes import checkout_environment
from trtsmith.converter.cli.exit_handling import signals_unwind
from trtsmith.converter.model.process.foreign_code import foreign_code

RUN = """
import signal, sys, threading, time
import numpy as np
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs beside it without
from trtsmith.converter.cli.exit_handling import signals_unwind
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import open_session, run_session
with signals_unwind():
    model = load_model(Path(sys.argv[1]))
    session = open_session(model)

    def tell(began=time.process_time()):  # the loop itself uses the processor
        while time.process_time() < began + 0.3:
            time.sleep(0.01)
        print("runs", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    run_session(session, model, {"x": np.ones(3, np.float32)})
"""


@pytest.mark.usefixtures("default_signals")
def test_handlers_are_away_in_the_block_alone() -> None:
    with signals_unwind():
        mine = signal.getsignal(signal.SIGTERM)
        with foreign_code():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            with foreign_code():
                pass
            assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_signals")
def test_handlers_of_other_programs_stay() -> None:
    with foreign_code():
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with signals_unwind():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with foreign_code():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ctrl_c_and_sigterm_end_it_while_onnxruntime_loops_without_end(
    number: signal.Signals, tmp_path: Path
) -> None:
    onnx.save(endless(), tmp_path / "m.onnx")
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path / "m.onnx")],
        env=checkout_environment(),
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"runs\n"
            process.send_signal(number)
            assert process.wait(60) == -number
        finally:
            process.kill()


def endless() -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["s", "s"], ["t"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, [3]),
        ],
    )
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y")]
    held = {"trips": np.array(1 << 60), "yes": np.array(True)}
    loop = helper.make_node("Loop", ["trips", "yes", "x"], ["y"], body=body)
    tensors = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph([loop], "g", value[:1], value[1:], tensors)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
