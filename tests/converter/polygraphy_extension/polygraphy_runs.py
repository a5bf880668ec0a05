"""What runs of Polygraphy have to look like, passed or failed; and models for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import helper as oh

from tests.converter.cli.commands.running import Ran
from tests.converter.models import save, value

Polygraphy = Callable[..., Ran]

CLOSE = ("--rtol", "1e-4", "--atol", "1e-4")
SIZES = ("--input-shapes", "x:[2,4,6,7]", "o:[2,18,6,7]", "m:[2,9,6,7]")
"""Of what `deformed` writes."""


def passed(ran: Ran) -> bool:
    return ran.code == 0 and "Pass Rate: 100.00%" in ran.out and ran.err == ""


def script_of(polygraphy: Polygraphy, *arguments: object) -> str:
    """What `--gen-script` writes."""
    ran = polygraphy("run", *arguments, "--gen-script", "g.py")
    assert ran.code == 0, ran
    return Path("g.py").read_text()


def problem(ran: Ran, *words: str) -> None:
    """A failure with four parts on stderr, no traceback, and Polygraphy's exit code."""
    assert ran.code == 1 and "Traceback" not in ran.out + ran.err, ran
    parts = re.findall(r"^ +(where|expected|fix): +(\S.*)$", ran.err, flags=re.M)
    assert [part for part, _ in parts[:3]] == ["where", "expected", "fix"], ran.err
    for word in words:
        assert word in ran.err, ran.err


def deformed(path: Path) -> Path:
    """A deformable convolution of mmcv's, which onnxruntime has not, between a Relu and a Sigmoid."""
    rng = np.random.default_rng(1)
    nodes = [
        oh.make_node("Relu", ["x"], ["r"], name="relu"),
        oh.make_node(
            "MMCVModulatedDeformConv2d", ["r", "o", "m", "w"], ["d"], name="dcn", domain="mmcv",
            stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1, deform_groups=1,
        ),
        oh.make_node("Sigmoid", ["d"], ["y"], name="sigmoid"),
    ]  # fmt: skip
    inputs = [value("x", ("n", 4, "h", "w")), value("o", ("n", 18, "h", "w")), value("m", ("n", 9, "h", "w"))]
    weights = {"w": rng.standard_normal((5, 4, 3, 3)).astype(np.float32)}
    return save(path, nodes, inputs, [value("y", ("n", 5, "h", "w"))], weights)
