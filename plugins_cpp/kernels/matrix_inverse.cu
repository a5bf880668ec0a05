#include "matrix_inverse.cuh"

#include "convert.cuh"
#include "dispatch.cuh"

namespace trtsmith {
namespace {

// Up to kMaxTiny a thread inverts a matrix in registers. Up to kMaxShared a team of threads does it in shared memory,
// with several teams in a block where the matrices are small. Above, a block does it in workspace. The limits are not
// tuned by measurement yet; kMaxShared keeps n * (n | 1) + 2 n words under the 48 KB that need no opt-in.
constexpr int kMaxTiny = 4;
constexpr int kMaxShared = 96;
constexpr int kTinyThreads = 128;
constexpr int kSharedThreads = 256;
constexpr int kWorkspaceThreads = 1024;
constexpr int64_t kMaxSlabs = 256;  // matrices in workspace at a time: bounds it for large batches
constexpr int kWarp = 32;

// The element type is read at run time: it costs nothing beside n^3 steps, and saves two thirds of the kernels.
struct Arguments {
    DType type;
    const void* input;
    void* output;
    int64_t batch;
    int32_t size;
    int32_t teamThreads;  // whole warps
    int32_t columnLanes;  // a power of two up to the warp: neighbouring threads take neighbouring columns
    float* workspace;
    int64_t slab;         // words of workspace or shared memory for one matrix
};

__device__ inline float loadElement(const void* source, int64_t position, DType type) {
    switch (type) {
        case DType::kFloat16:
            return loadFloat(static_cast<const __half*>(source) + position);
        case DType::kBFloat16:
            return loadFloat(static_cast<const __nv_bfloat16*>(source) + position);
        default:
            return loadFloat(static_cast<const float*>(source) + position);
    }
}

__device__ inline void storeElement(void* target, int64_t position, DType type, float value) {
    switch (type) {
        case DType::kFloat16:
            static_cast<__half*>(target)[position] = fromFloat<__half>(value);
            break;
        case DType::kBFloat16:
            static_cast<__nv_bfloat16*>(target)[position] = fromFloat<__nv_bfloat16>(value);
            break;
        default:
            static_cast<float*>(target)[position] = value;
    }
}

__device__ inline void swapIf(bool condition, float& first, float& second) {
    const float kept = first;
    first = condition ? second : first;
    second = condition ? kept : second;
}

// One thread a matrix, on [matrix | identity]. Every index is a constant after unrolling, so all of it stays in
// registers: rows are exchanged by selection.
template <int kSize>
__global__ void __launch_bounds__(kTinyThreads) tinyKernel(const Arguments a) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t matrix = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; matrix < a.batch;
         matrix += step) {
        const int64_t base = matrix * kSize * kSize;
        float left[kSize][kSize];
        float right[kSize][kSize];
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                left[i][j] = loadElement(a.input, base + i * kSize + j, a.type);
                right[i][j] = i == j ? 1.0F : 0.0F;
            }
        }
#pragma unroll
        for (int k = 0; k < kSize; ++k) {
#pragma unroll
            for (int i = k + 1; i < kSize; ++i) {
                const bool larger = fabsf(left[i][k]) > fabsf(left[k][k]);
#pragma unroll
                for (int j = 0; j < kSize; ++j) {
                    swapIf(larger, left[k][j], left[i][j]);
                    swapIf(larger, right[k][j], right[i][j]);
                }
            }
            const float pivot = left[k][k];
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                left[k][j] /= pivot;
                right[k][j] /= pivot;
            }
#pragma unroll
            for (int i = 0; i < kSize; ++i) {
                if (i != k) {
                    const float factor = left[i][k];
#pragma unroll
                    for (int j = 0; j < kSize; ++j) {
                        left[i][j] = fmaf(-factor, left[k][j], left[i][j]);
                        right[i][j] = fmaf(-factor, right[k][j], right[i][j]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                storeElement(a.output, base + i * kSize + j, a.type, right[i][j]);
            }
        }
    }
}

// A team's threads share one matrix in `scratch`: n rows of `stride` words, then the pivot column, then the pivots.
// The inverse replaces the matrix in place, so its columns come out in the order in which rows were exchanged; the
// store puts them back. All barriers are the block's: every team of a block takes the same steps, also one without a
// matrix of its own, which repeats the last and stores nothing.
__device__ inline void invertMatrices(const Arguments& a, float* scratch, int64_t stride) {
    __shared__ float bestValues[kWorkspaceThreads / kWarp];
    __shared__ int32_t bestRows[kWorkspaceThreads / kWarp];

    const int32_t size = a.size;
    const int thread = static_cast<int>(threadIdx.x);
    const int team = thread / a.teamThreads;
    const int teams = static_cast<int>(blockDim.x) / a.teamThreads;
    const int lane = thread - team * a.teamThreads;
    const int firstColumn = lane & (a.columnLanes - 1);
    const int firstRow = lane / a.columnLanes;
    const int rowStep = a.teamThreads / a.columnLanes;
    float* column = scratch + size * stride;
    int32_t* pivots = reinterpret_cast<int32_t*>(column + size);

    for (int64_t first = static_cast<int64_t>(blockIdx.x) * teams; first < a.batch;
         first += static_cast<int64_t>(gridDim.x) * teams) {
        const bool mine = first + team < a.batch;
        const int64_t base = (mine ? first + team : a.batch - 1) * size * size;
        for (int32_t i = firstRow; i < size; i += rowStep) {
            for (int32_t j = firstColumn; j < size; j += a.columnLanes) {
                scratch[i * stride + j] = loadElement(a.input, base + static_cast<int64_t>(i) * size + j, a.type);
            }
        }
        __syncthreads();

        for (int32_t k = 0; k < size; ++k) {
            // The largest of column k from row k down, the first of equals. NaN is larger than nothing; where there is
            // nothing else it becomes the pivot and spreads.
            float best = -1.0F;
            int32_t bestRow = k;
            for (int32_t i = lane; i < size; i += a.teamThreads) {
                const float value = scratch[i * stride + k];
                column[i] = value;
                if (i >= k && fabsf(value) > best) {
                    best = fabsf(value);
                    bestRow = i;
                }
            }
#pragma unroll
            for (int distance = kWarp / 2; distance > 0; distance /= 2) {
                const float otherBest = __shfl_xor_sync(0xffffffffU, best, distance);
                const int32_t otherRow = __shfl_xor_sync(0xffffffffU, bestRow, distance);
                if (otherBest > best || (otherBest == best && otherRow < bestRow)) {
                    best = otherBest;
                    bestRow = otherRow;
                }
            }
            if (lane % kWarp == 0) {
                bestValues[thread / kWarp] = best;
                bestRows[thread / kWarp] = bestRow;
            }
            __syncthreads();

            const int firstWarp = (thread - lane) / kWarp;
            best = bestValues[firstWarp];
            bestRow = bestRows[firstWarp];
            for (int warp = firstWarp + 1; warp < firstWarp + a.teamThreads / kWarp; ++warp) {
                if (bestValues[warp] > best || (bestValues[warp] == best && bestRows[warp] < bestRow)) {
                    best = bestValues[warp];
                    bestRow = bestRows[warp];
                }
            }
            const float pivot = column[bestRow];
            if (lane == 0) {
                pivots[k] = bestRow;
            }
            for (int32_t j = lane; j < size; j += a.teamThreads) {
                const float chosen = scratch[bestRow * stride + j];
                scratch[bestRow * stride + j] = scratch[k * stride + j];
                scratch[k * stride + j] = (j == k ? 1.0F : chosen) / pivot;
            }
            __syncthreads();

            for (int32_t i = firstRow; i < size; i += rowStep) {
                if (i != k) {
                    const float factor = column[i == bestRow ? k : i];  // `column` is older than the exchange
                    for (int32_t j = firstColumn; j < size; j += a.columnLanes) {
                        const float value = j == k ? 0.0F : scratch[i * stride + j];
                        scratch[i * stride + j] = fmaf(-factor, scratch[k * stride + j], value);
                    }
                }
            }
            __syncthreads();
        }

        for (int32_t j = firstColumn; mine && j < size; j += a.columnLanes) {
            // Undoing the exchanges from the last to the first moves some column to j: follow it backwards.
            int32_t source = j;
            for (int32_t k = 0; k < size; ++k) {
                const int32_t pivot = pivots[k];
                source = source == k ? pivot : (source == pivot ? k : source);
            }
            for (int32_t i = firstRow; i < size; i += rowStep) {
                storeElement(a.output, base + static_cast<int64_t>(i) * size + j, a.type,
                             scratch[i * stride + source]);
            }
        }
        __syncthreads();
    }
}

__global__ void __launch_bounds__(kSharedThreads, 1) sharedKernel(const Arguments a) {
    extern __shared__ float shared[];
    // An odd stride: reading down a column then touches every bank.
    invertMatrices(a, shared + static_cast<int>(threadIdx.x) / a.teamThreads * a.slab, a.size | 1);
}

__global__ void __launch_bounds__(kWorkspaceThreads, 1) workspaceKernel(const Arguments a) {
    invertMatrices(a, a.workspace + blockIdx.x * a.slab, a.size);
}

bool possible(const MatrixInverseShape& shape, int64_t& elements) {
    int64_t matrix = 0;
    // The second product bounds n below 2^28 even for an empty batch.
    return elementCount({shape.batch, shape.size, shape.size}, elements) &&
           elementCount({shape.size, shape.size}, matrix);
}

int64_t workspaceSlab(int64_t size) {
    return ceilDivide(size * size + 2 * size, 64) * 64;  // whole 256-byte pieces: no line shared by two blocks
}

int64_t slabCount(int64_t batch) { return batch < kMaxSlabs ? batch : kMaxSlabs; }

template <int kSize>
cudaError_t launchTiny(const Arguments& arguments, cudaStream_t stream) {
    return launch(tinyKernel<kSize>, gridBlocks(ceilDivide(arguments.batch, kTinyThreads)), kTinyThreads, 0, stream,
                  arguments);
}

cudaError_t launchShared(Arguments arguments, cudaStream_t stream) {
    const int size = arguments.size;
    const int threads = size <= 32 ? 128 : kSharedThreads;
    arguments.teamThreads = size <= 16 ? kWarp : threads;
    arguments.columnLanes = size <= 8 ? 8 : (size <= 16 ? 16 : kWarp);
    arguments.slab = size * (size | 1) + 2 * size;
    const int teams = threads / arguments.teamThreads;
    const size_t bytes = static_cast<size_t>(arguments.slab) * static_cast<size_t>(teams) * sizeof(float);
    return launch(sharedKernel, gridBlocks(ceilDivide(arguments.batch, teams)), static_cast<unsigned int>(threads),
                  bytes, stream, arguments);
}

cudaError_t launchWorkspace(Arguments arguments, void* workspace, cudaStream_t stream) {
    if (workspace == nullptr) {
        return cudaErrorInvalidValue;
    }
    arguments.teamThreads = kWorkspaceThreads;
    arguments.columnLanes = kWarp;
    arguments.workspace = static_cast<float*>(workspace);
    arguments.slab = workspaceSlab(arguments.size);
    return launch(workspaceKernel, gridBlocks(slabCount(arguments.batch)), kWorkspaceThreads, 0, stream, arguments);
}

}  // namespace

size_t matrixInverseWorkspace(const MatrixInverseShape& shape) {
    int64_t elements = 0;
    if (!possible(shape, elements) || elements == 0 || shape.size <= kMaxShared) {
        return 0;
    }
    return static_cast<size_t>(workspaceSlab(shape.size) * slabCount(shape.batch)) * sizeof(float);
}

cudaError_t matrixInverse(const MatrixInverseParams& params, const MatrixInverseShape& shape, void* workspace,
                          cudaStream_t stream) {
    int64_t elements = 0;
    if (!possible(shape, elements)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto) -> cudaError_t {
        if (elements == 0) {
            return cudaSuccess;
        }
        if (params.input == nullptr || params.output == nullptr) {
            return cudaErrorInvalidValue;
        }
        Arguments arguments{};
        arguments.type = params.type;
        arguments.input = params.input;
        arguments.output = params.output;
        arguments.batch = shape.batch;
        arguments.size = static_cast<int32_t>(shape.size);
        switch (shape.size) {
            case 1:
                return launchTiny<1>(arguments, stream);
            case 2:
                return launchTiny<2>(arguments, stream);
            case 3:
                return launchTiny<3>(arguments, stream);
            case kMaxTiny:
                return launchTiny<kMaxTiny>(arguments, stream);
            default:
                return shape.size <= kMaxShared ? launchShared(arguments, stream)
                                                : launchWorkspace(arguments, workspace, stream);
        }
    });
}

}  // namespace trtsmith
