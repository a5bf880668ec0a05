#include "deformable_convolution_hopper_kernel.cuh"

namespace trtsmith {
namespace tiled {

template cudaError_t launchPipeline<float>(const Arguments<float>&, int, cudaStream_t);

}  // namespace tiled
}  // namespace trtsmith
