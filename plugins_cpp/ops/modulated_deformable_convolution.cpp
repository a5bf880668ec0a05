// DCNv2: deformable convolution with a mask.
#include "ops/deformable_convolution.hpp"

namespace trtsmith {

struct ModulatedDeformableConvolution : DeformableConvolutionOp<true> {
    static constexpr char const* kName = "ModulatedDeformableConvolution";
    static constexpr char const* kVersion = "1";
};

TRTSMITH_BIND(ModulatedDeformableConvolution)

}  // namespace trtsmith
