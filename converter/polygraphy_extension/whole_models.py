"""Passes models between Polygraphy, which holds them in memory, and trtsmith, which leaves weights in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import util
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType

from trtsmith.converter.base.errors import UsageError, problems_named
from trtsmith.converter.base.process.scratch_folder import ScratchFolder

if TYPE_CHECKING:
    import onnx

    from trtsmith.converter.model.model import Model


Inputs = Mapping[str, tuple[str, Sequence[int | None]]]
"""Of inputs by name: the type, as numpy and ml_dtypes name it, and the shape."""


def metadata_of(inputs: Inputs) -> Any:
    """Returns the inputs as Polygraphy's TensorMetadata."""
    metadata = TensorMetadata()
    for name, (dtype, shape) in inputs.items():
        metadata.add(name, dtype=_known(dtype), shape=list(shape))
    return metadata


def to_types(feed_dict: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """Converts Polygraphy's arrays to numpy arrays in the inputs' types."""
    import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
    import numpy as np

    return {
        name: np.asarray(util.array.to_numpy(value)).astype(inputs[name][0], copy=False)
        for name, value in feed_dict.items()
    }


def to_polygraphy(outputs: Mapping[str, Any], feed_dict: Mapping[str, Any]) -> Any:
    """Converts numpy arrays for Polygraphy; to PyTorch tensors if the inputs were."""
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


_IN_MEMORY = "the model that Polygraphy loaded"


@contextmanager
def model_file(model: Any) -> Iterator[Path]:
    """Yields the file of a model; one in memory is written to a file for the length of the block.

    model: a path, a ModelProto, or a loader of Polygraphy's that gives one of these.
    """
    given, _ = util.invoke_if_callable(model)
    if isinstance(given, (str, Path)):
        yield Path(given)
        return
    import onnx

    from trtsmith.converter.model.save import INLINE_MODEL_LIMIT

    with ScratchFolder("model") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save_model(given, path, save_as_external_data=given.ByteSize() > INLINE_MODEL_LIMIT)
        with problems_named(path, Path(_IN_MEMORY)):
            yield path


def whole_proto(model: Model, name: str) -> onnx.ModelProto:
    """Returns the model with its weights inside, as Polygraphy's loaders pass models on.

    name: of the model, for a message. UsageError for one that is too large for that.
    """
    import onnx

    from trtsmith.converter.model.save import save_model

    with ScratchFolder("model") as folder:
        path = Path(folder) / "model.onnx"
        save_model(model, path)
        if path.with_name(path.name + ".data").exists():
            raise UsageError(
                "the rewritten model is larger than what Polygraphy can pass from one loader to the next",
                name,
                "a model of less than 2 GiB",
                "trtsmith rewrite MODEL -o rewritten.onnx, and give that file to polygraphy",
            )
        return onnx.load_model(path)
