"""Reads the body of a Loop backwards from a result, for rules that match an exporter's pattern."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.importers.registry import normalise_domain


class OtherLoopError(Exception):
    """Raised where a Loop does not match the pattern."""


class BodyReader:
    """Base of the readers of Loop bodies. Its methods raise OtherLoopError where the body does not match."""

    def __init__(self, values: LoopValues) -> None:
        self._values = values

    def _maker(self, name: str) -> onnx.NodeProto | None:
        return self._values.makers.get(name)

    def _made(self, name: str, *kinds: str) -> onnx.NodeProto:
        """The node of the body that makes the value, of one of the kinds if any are given."""
        return self._of_kind(self._maker(name), *kinds)

    def _of_kind(self, maker: onnx.NodeProto | None, *kinds: str) -> onnx.NodeProto:
        if maker is None or normalise_domain(maker.domain) or (kinds and maker.op_type not in kinds):
            raise OtherLoopError
        return maker

    def _numbers(self, name: str) -> list[Any]:
        """The elements of a constant."""
        value = self._values.constant(name)
        if value is None:
            raise OtherLoopError
        return list(np.ravel(value).tolist())

    def _hold(self, condition: bool) -> None:
        if not condition:
            raise OtherLoopError
