// DCNv2: deformable convolution with a mask.
#include "definitions/modulated_deformable_convolution.hpp"

#include "ops/deformable_convolution.hpp"

namespace trtsmith {

struct ModulatedDeformableConvolution : DeformableConvolutionOp<ModulatedDeformableConvolutionDefinition> {};

TRTSMITH_BIND(ModulatedDeformableConvolution)

}  // namespace trtsmith
