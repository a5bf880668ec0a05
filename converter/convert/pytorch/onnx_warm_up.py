"""Imports modules that PyTorch's exporter loads late, before the process is locked down: some open libraries."""

from __future__ import annotations

import io

import torch

from trtsmith.importers.torch_ops import quiet


class _Nothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def warm_up() -> None:
    """Export, save and load a module of one node."""
    with quiet(), torch.no_grad():
        stream = io.BytesIO()
        torch.export.save(torch.export.export(_Nothing(), (torch.zeros(2),)), stream)
        stream.seek(0)
        program = torch.export.load(stream)
        program.module()(torch.zeros(2))
        torch.onnx.export(program.run_decompositions({}), dynamo=True, verbose=False)
