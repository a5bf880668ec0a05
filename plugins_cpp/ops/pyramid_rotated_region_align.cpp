// RoI align of rotated boxes on several levels of features.
#include "definitions/pyramid_rotated_region_align.hpp"

#include "ops/pyramid_regions.hpp"

namespace trtsmith {

struct PyramidRotatedRegionAlign : PyramidRegionOp<PyramidRotatedRegionAlignDefinition, true> {};

TRTSMITH_BIND(PyramidRotatedRegionAlign)

}  // namespace trtsmith
