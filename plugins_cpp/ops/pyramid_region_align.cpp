// RoI align on several levels of features.
#include "ops/pyramid_regions.hpp"

namespace trtsmith {

struct PyramidRegionAlign : PyramidRegionOp<false> {
    static constexpr const char* kName = "PyramidRegionAlign";
    static constexpr const char* kVersion = "1";
};

TRTSMITH_BIND(PyramidRegionAlign)

}  // namespace trtsmith
