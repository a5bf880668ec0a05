// DCNv1: deformable convolution without a mask.
#include "ops/deformable_convolution.hpp"

namespace trtsmith {

struct DeformableConvolution : DeformableConvolutionOp<false> {
    static constexpr char const* kName = "DeformableConvolution";
    static constexpr char const* kVersion = "1";
};

TRTSMITH_BIND(DeformableConvolution)

}  // namespace trtsmith
