"""Imports what the worker that exports PyTorch models imports first, and collects the exporter's translations once.

None of these registers operators but PyTorch and the one module of ours that the worker imports before all others.
"""

from __future__ import annotations

import torch._dynamo
import torch.onnx._internal.exporter._core  # noqa: F401
from onnxscript._framework_apis import torch_2_11

import trtsmith.converter.convert.pytorch.callable_operators  # noqa: F401
from tests.conftest import keep_translations

keep_translations()
torch_2_11.get_torchlib_ops()
