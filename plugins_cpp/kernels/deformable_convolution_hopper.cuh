// Deformable convolution on Hopper's asynchronous tensor cores (sm_90a): the implicit GEMM of
// deformable_convolution_tiled.cuh, with the two halves of the work in warps of their own.
//
// A block makes kOut output channels x kPixels pixels at a time. Its producer warpgroups locate and sample one step of
// the depth after the other into a ring of stages in shared memory; one of their threads has the copy engine bring the
// step's weights. Its consumer warpgroups multiply what lies there (rows are pixels, columns output channels) and store
// the sums. Each half waits for the other only where the ring is full or empty, so that sampling and multiplying
// overlap, also from one tile to the next.
#pragma once

#include "deformable_convolution_sampling.cuh"

namespace trtsmith {
namespace tiled {

// Enqueues the kernel that suits the sizes, to follow prepareKernel. Instantiated for float, __half and __nv_bfloat16,
// each in a source file of its own. Runs only in machine code for sm_90a: in all other code the kernel is empty.
template <typename T>
cudaError_t launchPipeline(const Arguments<T>& arguments, int multiprocessors, cudaStream_t stream);

}  // namespace tiled
}  // namespace trtsmith
