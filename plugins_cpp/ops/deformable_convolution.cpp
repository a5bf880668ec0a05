// DCNv1: deformable convolution without a mask.
#include "ops/deformable_convolution.hpp"

namespace trtsmith {

struct DeformableConvolution : DeformableConvolutionOp<false> {
    static constexpr const char* kName = "DeformableConvolution";
    static constexpr const char* kVersion = "1";
};

TRTSMITH_BIND(DeformableConvolution)

}  // namespace trtsmith
