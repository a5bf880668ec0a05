// The inverse of larger matrices: one kernel eliminates in workspace, a block to a matrix, and a second, with several
// blocks to a matrix as rows are independent there, corrects.
#pragma once

#include <cstdint>

#include "dispatch.cuh"
#include "matrix_inverse_eliminate.cuh"
#include "matrix_inverse_refine.cuh"

namespace trtsmith {
namespace matrix_inverse_detail {

constexpr int64_t kMaxSlabs = 256;  // matrices in workspace at a time: bounds it for large batches
constexpr int64_t kMaxPanels = 8;   // blocks that correct one matrix in workspace

static __global__ void __launch_bounds__(kWorkspaceThreads, 1) eliminateKernel(const Arguments a) {
    const int64_t base = (a.firstMatrix + blockIdx.x) * a.size * a.size;
    eliminate(a, base, workIn(a.workspace + blockIdx.x * a.slab, a.size, a.size), placeInTeam(a));
}

static __global__ void __launch_bounds__(kSharedThreads, 2) correctKernel(const Arguments a) {
    const int32_t slab = static_cast<int32_t>(blockIdx.x) / a.panels;
    const int32_t part = static_cast<int32_t>(blockIdx.x) % a.panels;
    const int64_t base = (a.firstMatrix + slab) * a.size * a.size;
    Work work = workIn(a.workspace + slab * a.slab, a.size, a.size);
    work.panel += static_cast<int64_t>(part) * a.panelRows * a.size;
    correct(a, base, work, placeInTeam(a), part * a.panelRows, a.panels * a.panelRows, true);
}

inline int64_t panelCount(int64_t size) {
    const int64_t panels = ceilDivide(size, panelRows(kSharedThreads, kWarp));
    return panels < kMaxPanels ? panels : kMaxPanels;
}

inline int64_t workspaceSlab(int64_t size) {
    // Whole 256-byte pieces: no line shared by two matrices.
    return ceilDivide(slabWords(size, size, panelCount(size) * panelRows(kSharedThreads, kWarp)), 64) * 64;
}

inline int64_t slabCount(int64_t batch) { return batch < kMaxSlabs ? batch : kMaxSlabs; }

inline cudaError_t launchWorkspace(Arguments arguments, void* workspace, cudaStream_t stream) {
    if (workspace == nullptr) {
        return cudaErrorInvalidValue;
    }
    arguments.columnLanes = kWarp;
    arguments.panelRows = static_cast<int32_t>(panelRows(kSharedThreads, kWarp));
    arguments.panels = static_cast<int32_t>(panelCount(arguments.size));
    arguments.workspace = static_cast<float*>(workspace);
    arguments.slab = workspaceSlab(arguments.size);
    for (; arguments.firstMatrix < arguments.batch; arguments.firstMatrix += kMaxSlabs) {
        const int64_t slabs = slabCount(arguments.batch - arguments.firstMatrix);
        arguments.teamThreads = kWorkspaceThreads;
        cudaError_t error = launch(eliminateKernel, gridBlocks(slabs), kWorkspaceThreads, 0, stream, arguments);
        if (error != cudaSuccess) {
            return error;
        }
        arguments.teamThreads = kSharedThreads;
        error = launch(correctKernel, gridBlocks(slabs * arguments.panels), kSharedThreads, 0, stream, arguments);
        if (error != cudaSuccess) {
            return error;
        }
    }
    return cudaSuccess;
}

}  // namespace matrix_inverse_detail
}  // namespace trtsmith
