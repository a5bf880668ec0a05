#include "deformable_convolution_hopper_kernel.cuh"

namespace trtsmith {
namespace tiled {

template cudaError_t launchPipeline<__half>(const Arguments<__half>&, int, cudaStream_t);

}  // namespace tiled
}  // namespace trtsmith
