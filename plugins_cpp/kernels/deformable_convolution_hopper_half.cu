#include "deformable_convolution_hopper_kernel.cuh"

namespace trtsmith {
namespace tiled {

cudaError_t pipelineAvailable(bool& available) {
    cudaFuncAttributes attributes{};
    const auto kernel = pipelineKernel<__half, 64, 64, kStepUnits>;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    // Code that the driver made of the PTX of an older architecture does not hold it.
    available = error == cudaSuccess && attributes.binaryVersion == 90 && attributes.ptxVersion == 90;
    return error;
}

template cudaError_t launchPipeline<__half>(const Arguments<__half>&, int, cudaStream_t);

}  // namespace tiled
}  // namespace trtsmith
