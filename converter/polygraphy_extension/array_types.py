"""Converts arrays for Polygraphy: types that numpy lacks become float32, which holds their values exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy import util
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType

Inputs = Mapping[str, tuple[str, Sequence[int | None]]]
"""Of inputs by name: the type, as numpy and ml_dtypes name it, and the shape."""


def metadata_of(inputs: Inputs) -> Any:
    """What Polygraphy is told of inputs."""
    metadata = TensorMetadata()
    for name, (dtype, shape) in inputs.items():
        metadata.add(name, dtype=_known(dtype), shape=list(shape))
    return metadata


def to_types(feed_dict: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """Arrays of ours from Polygraphy's, in the types of the inputs."""
    import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
    import numpy as np

    return {
        name: np.asarray(util.array.to_numpy(value)).astype(inputs[name][0], copy=False)
        for name, value in feed_dict.items()
    }


def to_polygraphy(outputs: Mapping[str, Any], feed_dict: Mapping[str, Any]) -> Any:
    """Arrays for Polygraphy from ours; as PyTorch's tensors, if the inputs were such."""
    from collections import OrderedDict

    from trtsmith.converter.verify.polygraphy_files import plain_arrays

    plain = plain_arrays(outputs)
    if any(util.array.is_torch(value) for value in feed_dict.values()):
        plain = {name: util.array.to_torch(value) for name, value in plain.items()}
    return OrderedDict(plain)


def _known(dtype: str) -> Any:
    return getattr(DataType, dtype.upper(), DataType.FLOAT32) if _in_numpy(dtype) else DataType.FLOAT32


def _in_numpy(dtype: str) -> bool:
    return dtype in {
        *("float64", "float32", "float16", "bool"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    }
