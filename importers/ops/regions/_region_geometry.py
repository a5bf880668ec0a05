"""Defines the numbers that turn a region into samples of a feature map, in which the operators on regions differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import Dim, Field, Fields, Kind, Port, Shapes, Work
from trtsmith.importers.ops._shared import flag, size_faults, size_of

AVERAGE, MAXIMUM, MAXIMUM_CORNER = 0, 1, 2
"""What a bin holds: the average of its samples, the largest of them, or the largest of their corners times weights."""

MOST_GRID = 2**24
"""Samples along one side of a bin, where their number follows from the region: a region that needs more has none."""

MOST_SAMPLES = 1024
"""The same where the number is given."""


@dataclass(frozen=True)
class Geometry:
    """The numbers, as of kernels/regions/region_align.cuh.

    scales:       pixels of a map for one unit of the regions' coordinates, a number for each level.
    pixel_offset: taken off scaled coordinates: 0.5 where the centres of pixels are at halves.
    least_size:   to which smaller sides grow, in pixels of the map; None: none does.
    angle_scale:  radians for one unit of the angle of rotated boxes, which turn y to x; None: boxes are corners.
    growth:       factor of the regions' size before scaling; 0 or less: none. growth_counts_ends: size + 1 grows, and 1
                  is taken off again.
    finest_scale: regions of twice this size leave level 0.
    offset_scale: of offsets of bins, which are shares of the region's size.
    by_position:  channel c of bin b is input channel c * bins + b.
    """

    output_height: int
    output_width: int
    sampling_ratio: int
    scales: tuple[float, ...] = (1.0,)
    pixel_offset: float = 0.0
    least_size: float | None = None
    pooling: int = AVERAGE
    angle_scale: float | None = None
    growth: float = 0.0
    growth_counts_ends: bool = False
    finest_scale: float = 1.0
    offset_scale: float = 0.0
    by_position: bool = False

    @classmethod
    def of(cls, fields: Fields, **others: Any) -> Geometry:
        """Takes bins, samples and the scale from the fields, and the shift of pixels from `aligned` if there is one."""
        aligned = bool(fields.get("aligned", 1))
        own = {"pixel_offset": 0.5 if aligned else 0.0, "least_size": None if aligned else 1.0, **others}
        if "spatial_scale" in fields:
            own["scales"] = (fields["spatial_scale"],)
        return cls(fields["output_height"], fields["output_width"], fields["sampling_ratio"], **own)

    @property
    def bins(self) -> int:
        return self.output_height * self.output_width

    @property
    def numbers(self) -> int:
        """The image and coordinates of a region."""
        return 5 if self.angle_scale is None else 6


ROIS = Port("rois", "T", 2, "[K, 5] (image, x1, y1, x2, y2)", positions=True, meaning=Meaning.BOXES)
OUTPUT_HEIGHT = Field("output_height", Kind.INT, "bins of a region, from top to bottom", minimum=1)
OUTPUT_WIDTH = Field("output_width", Kind.INT, "bins of a region, from left to right", minimum=1)
SPATIAL_SCALE = Field(
    "spatial_scale", Kind.FLOAT, "pixels of the map for one unit of the regions' coordinates", default=1.0
)
SAMPLING_RATIO = Field(
    "sampling_ratio",
    Kind.INT,
    f"samples along each side of a bin, at most {MOST_SAMPLES}; 0 or less: the bin's size in pixels, rounded up",
    default=0,
)
ALIGNED = flag(
    "aligned",
    "1: the centres of pixels are at halves, and sizes are as they are; 0: at whole numbers, and sizes are 1 at least",
    default=1,
)
CLOCKWISE = flag(
    "clockwise", "direction of positive angles as one sees the image: 1 clockwise, 0 counter-clockwise"
)
POOLING = Field(
    "pooling",
    Kind.INT,
    "what a bin holds: 0 the average of its samples, 1 the largest, 2 the largest of their corners times weights",
    default=AVERAGE,
    allowed=(AVERAGE, MAXIMUM, MAXIMUM_CORNER),
)


def shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Dim, ...]]:
    """Computes the output shape of an operator on one map."""
    bins = fields["output_height"], fields["output_width"]
    return {"output": (shapes["rois"][0], shapes["x"][1], *bins)}


def sampling_faults(sampling_ratio: int) -> list[str]:
    """Lists the faults of the number of samples, one sentence each."""
    if sampling_ratio > MOST_SAMPLES:
        return [f"sampling_ratio = {sampling_ratio}, more than {MOST_SAMPLES}"]
    return []


def box_faults(shapes: Shapes, numbers: int) -> list[str]:
    """Lists the faults of the regions' shape."""
    return size_faults(shapes, ("rois", 1, numbers))


def map_faults(name: str, shapes: Shapes) -> list[str]:
    """Returns a fault for a plane of 2^31 pixels or more, since kernels count them in 32 bits."""
    if name not in shapes:
        return []
    height, width = shapes[name][2:]
    if height is None or width is None or height * width < 2**31:
        return []
    return [f"{name} has {height} x {width} pixels, more than 2^31 - 1"]


def check(numbers: int, fields: Fields, shapes: Shapes) -> list[str]:
    """Checks the inputs of an operator on one map and regions of so many numbers."""
    sampling = sampling_faults(fields["sampling_ratio"]) if "sampling_ratio" in fields else []
    return [*sampling, *box_faults(shapes, numbers), *map_faults("x", shapes)]


def check_bins(fields: Fields, shapes: Shapes) -> list[str]:
    """Checks that bins with channels of their own divide the channels of the map."""
    channels = size_of(shapes, "x", 1)
    bins = fields["output_height"] * fields["output_width"]
    if channels is not None and channels % bins:
        return [f"x[1] = {channels}, which {bins} bins do not divide"]
    return []


def sampling_work(fields: Fields, shapes: Shapes) -> Work:
    """Counts four corners for each sample of each channel, and 20 operations for each sample's position and weights.

    Where the number of samples follows from the regions, one a bin is counted.
    """
    count, channels, height, width = shapes["output"]
    samples = count * height * width * max(fields["sampling_ratio"], 1) ** 2
    return Work(flops=samples * (8 * channels + 20))
