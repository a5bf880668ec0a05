// RoI align of rotated boxes on several levels of features.
#include "ops/pyramid_regions.hpp"

namespace trtsmith {

struct PyramidRotatedRegionAlign : PyramidRegionOp<true> {
    static constexpr const char* kName = "PyramidRotatedRegionAlign";
    static constexpr const char* kVersion = "1";
};

TRTSMITH_BIND(PyramidRotatedRegionAlign)

}  // namespace trtsmith
