// RoI align on several levels of features.
#include "definitions/pyramid_region_align.hpp"

#include "ops/pyramid_regions.hpp"

namespace trtsmith {

struct PyramidRegionAlign : PyramidRegionOp<PyramidRegionAlignDefinition, false> {};

TRTSMITH_BIND(PyramidRegionAlign)

}  // namespace trtsmith
