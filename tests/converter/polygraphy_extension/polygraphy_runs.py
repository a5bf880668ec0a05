"""Checks the output of Polygraphy's runs, passed or failed; and makes models for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import helper as oh

from tests.converter.cli.commands.running import Ran
from tests.converter.models import save, value, written

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
    weights = {"w": np.random.default_rng(1).standard_normal((5, 4, 3, 3)).astype(np.float32)}
    dcn = "MMCVModulatedDeformConv2d <stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1, deform_groups = 1>"
    text = f"""(float[n,4,h,w] x, float[n,18,h,w] o, float[n,9,h,w] m) => (float[n,5,h,w] y) {{
        [relu] r = Relu (x) [dcn] d = mmcv.{dcn} (r, o, m, w) [sigmoid] y = Sigmoid (d) }}"""
    return written(path, text, weights)


def strange(path: Path, name: str = "s") -> Path:
    """A node that nobody knows."""
    node = oh.make_node("Strange", ["x"], ["y"], name=name, domain="nobody")
    return save(path, [node], [value("x", (1,))], [value("y", (1,))])
