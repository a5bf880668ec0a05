// DCNv1: deformable convolution without a mask.
#include "definitions/deformable_convolution.hpp"

#include "ops/deformable_convolution.hpp"

namespace trtsmith {

struct DeformableConvolution : DeformableConvolutionOp<DeformableConvolutionDefinition> {};

TRTSMITH_BIND(DeformableConvolution)

}  // namespace trtsmith
