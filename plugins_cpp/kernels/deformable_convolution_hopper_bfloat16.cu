#include "deformable_convolution_hopper_kernel.cuh"

namespace trtsmith {
namespace tiled {

template cudaError_t launchPipeline<__nv_bfloat16>(const Arguments<__nv_bfloat16>&, int, cudaStream_t);

}  // namespace tiled
}  // namespace trtsmith
