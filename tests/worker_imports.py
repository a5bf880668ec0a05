"""Imports what forked workers import first, and collects the translations of PyTorch's exporter once.

None of these registers operators but PyTorch and the one module of ours that the exporting worker imports before others.
"""

from __future__ import annotations

import torch._dynamo
import torch.onnx._internal.exporter._core  # noqa: F401
from onnxscript._framework_apis import torch_2_11

import trtsmith.converter.convert.pytorch.callable_operators
import trtsmith.converter.plugin.test_worker  # noqa: F401
from tests.conftest import keep_translations

keep_translations()
torch_2_11.get_torchlib_ops()
