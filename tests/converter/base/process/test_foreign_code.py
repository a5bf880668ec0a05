"""Signals end the process during foreign code, and reach Python again afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.converter.models import written
from tests.processes import checkout_environment
from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.converter.cli.exit_handling import signals_unwind

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
    written(tmp_path / "m.onnx", ENDLESS)
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


ENDLESS = """(float[3] x) => (float[3] y) <int64 trips = {1152921504606846976}, bool yes = {1}> {
    y = Loop (trips, yes, x) <body = body (int64 i, bool go, float[3] s) => (bool on, float[3] t) {
        on = Identity (go) t = Add (s, s) }> }"""
