"""Computes a cheap fingerprint of a model's files, to detect an engine of another model."""

from __future__ import annotations

import hashlib
import os

from trtsmith.converter.model.model import Model

_WHOLE = 64 << 20
"""Files up to this size are read whole: 0.2 s."""

_SAMPLES, _SAMPLE = 256, 4096
"""Places of a larger file that are hashed, and bytes at each. Weights that were trained further differ in all of them."""


def fingerprint(model: Model) -> str:
    """Returns "sha256:..." over the size and content of the model file and its external data, in order of their names.

    Of files beyond 64 MiB only samples are read, so that a change of a few weights in such a file is not seen.
    """
    digest = hashlib.sha256()
    main, *others = sorted(model.files.items(), key=lambda item: (item[1].path != model.path, item[0]))
    for _, file in (main, *others):
        digest.update(f"{file.size}\n".encode())
        if file.size <= _WHOLE:
            places, length = range(0, file.size, 1 << 20), 1 << 20
        else:
            places = range(0, file.size - _SAMPLE + 1, (file.size - _SAMPLE) // (_SAMPLES - 1))
            length = _SAMPLE
        for place in places:
            digest.update(os.pread(file.descriptor, length, place))
    return "sha256:" + digest.hexdigest()
