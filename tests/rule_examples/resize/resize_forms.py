"""Models that the rule resize takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, signature: str, attributes: str, inputs: str, reference: bool = False) -> Example:
    text = f"""<ir_version: 9, opset_import: ["" : 19]> g {signature}
        <float[2] scales = {{0.6, 1.7}}, float[2] small = {{0.15, 0.6}}, int64[2] sizes = {{7, 8}},
         float[4] roi = {{0.1, -0.2, 0.8, 1.1}}> {{ y = Resize <axes = [2, 3], {attributes}> ({inputs}) }}"""
    return Example(name, text, reference=reference, rtol=1e-4, atol=1e-5)


_OLDER = Example(
    "uint8, opset 10",
    """<ir_version: 8, opset_import: ["" : 10]> g (uint8[1, 2, 3, 4] x) => (uint8[1, 2, 6, 6] y)
    <float[4] scales = {1.0, 1.0, 2.0, 1.5}> { y = Resize <mode = "nearest"> (x, scales) }""",
)


_X = "(float[1, 2, 9, 10] x)"


_EXAMPLES = (
    _OLDER,
    _example(
        "cubic, antialias",
        f"{_X} => (float[1, 2, 5, 17] y)",
        'mode = "cubic", antialias = 1, cubic_coeff_a = -0.5',
        "x, , scales",
        reference=True,
    ),
    _example(
        "linear, antialias, many neighbours",
        "(float[1, 2, 40, 10] x) => (float[1, 2, 6, 6] y)",
        'mode = "linear", antialias = 1, exclude_outside = 1',
        "x, , small",
        reference=True,
    ),
    _example(
        "crop, linear",
        f"{_X} => (float[1, 2, 7, 8] y)",
        'mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 5.0',
        "x, roi, , sizes",
    ),
    _example(
        "symmetric, cubic, nothing outside",
        f"{_X} => (float[1, 2, 5, 17] y)",
        'mode = "cubic", coordinate_transformation_mode = "half_pixel_symmetric", exclude_outside = 1',
        "x, , scales",
        reference=True,
    ),
    _example(
        "aspect ratio, nearest",
        f"{_X} => (float[1, 2, 7, 8] y)",
        'mode = "nearest", keep_aspect_ratio_policy = "not_larger", nearest_mode = "ceil"',
        "x, , , sizes",
    ),
    _example(
        "integers, nearest",
        "(int64[1, 2, 9, 10] x) => (int64[1, 2, 5, 17] y)",
        'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"',
        "x, , scales",
        reference=True,
    ),
)


EXAMPLES = {"resize": _EXAMPLES}
