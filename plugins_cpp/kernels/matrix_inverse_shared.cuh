// The inverse of matrices that fit in shared memory: a team of threads to a matrix, several teams in a block where the
// matrices are small.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch.cuh"
#include "matrix_inverse_eliminate.cuh"
#include "matrix_inverse_refine.cuh"

namespace trtsmith {
namespace matrix_inverse_detail {

// Not tuned by measurement yet. It keeps slabWords under the 48 KB that need no opt-in.
constexpr int kMaxShared = 96;

// The second term is what eliminate keeps for the pivot.
static_assert(sizeof(float) * slabWords(kMaxShared, kMaxShared | 1, panelRows(kSharedThreads, kWarp)) +
                      (sizeof(float) + sizeof(int32_t)) * (kWorkspaceThreads / kWarp) <=
                  48 * 1024,
              "no room in shared memory");

// Every team of a block takes the same steps, also one without a matrix of its own, which repeats the last and stores
// nothing.
static __global__ void __launch_bounds__(kSharedThreads, 3) sharedKernel(const Arguments a) {
    extern __shared__ float shared[];
    const int team = static_cast<int>(threadIdx.x) / a.teamThreads;
    const int teams = static_cast<int>(blockDim.x) / a.teamThreads;
    const Place place = placeInTeam(a);
    // An odd stride: reading down a column then touches every bank.
    const Work work = workIn(shared + team * a.slab, a.size, a.size | 1);
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * teams; first < a.batch;
         first += static_cast<int64_t>(gridDim.x) * teams) {
        const bool mine = first + team < a.batch;
        const int64_t base = (mine ? first + team : a.batch - 1) * a.size * a.size;
        eliminate(a, base, work, place);
        correct(a, base, work, place, 0, a.panelRows, mine);
    }
}

inline cudaError_t launchShared(Arguments arguments, cudaStream_t stream) {
    const int size = arguments.size;
    const int threads = size <= 32 ? 128 : kSharedThreads;
    arguments.teamThreads = size <= 16 ? kWarp : threads;
    arguments.columnLanes = size <= 8 ? 8 : (size <= 16 ? 16 : kWarp);
    arguments.panelRows = static_cast<int32_t>(panelRows(arguments.teamThreads, arguments.columnLanes));
    arguments.slab = slabWords(size, size | 1, arguments.panelRows < size ? arguments.panelRows : size);
    const int teams = threads / arguments.teamThreads;
    const size_t bytes = static_cast<size_t>(arguments.slab) * static_cast<size_t>(teams) * sizeof(float);
    return launch(sharedKernel, gridBlocks(ceilDivide(arguments.batch, teams)), static_cast<unsigned int>(threads),
                  bytes, stream, arguments);
}

}  // namespace matrix_inverse_detail
}  // namespace trtsmith
