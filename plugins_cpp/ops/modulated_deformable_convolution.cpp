// DCNv2: deformable convolution with a mask.
#include "ops/deformable_convolution.hpp"

namespace trtsmith {

struct ModulatedDeformableConvolution : DeformableConvolutionOp<true> {
    static constexpr const char* kName = "ModulatedDeformableConvolution";
    static constexpr const char* kVersion = "1";
};

TRTSMITH_BIND(ModulatedDeformableConvolution)

}  // namespace trtsmith
