#include "matrix_inverse.cuh"

#include "compensated.cuh"
#include "convert.cuh"
#include "dispatch.cuh"

namespace trtsmith {
namespace {

// Up to kMaxTiny a thread inverts a matrix in registers. Up to kMaxShared a team of threads does it in shared memory,
// with several teams in a block where the matrices are small. Above, one kernel eliminates in workspace, a block to a
// matrix, and a second, with several blocks to a matrix as rows are independent there, corrects. The limits are not
// tuned by measurement yet; kMaxShared keeps slabWords under the 48 KB that need no opt-in.
constexpr int kMaxTiny = 4;
constexpr int kMaxShared = 96;
constexpr int kTinyThreads = 128;
constexpr int kSharedThreads = 256;
constexpr int kWorkspaceThreads = 1024;
constexpr int64_t kMaxSlabs = 256;  // matrices in workspace at a time: bounds it for large batches
constexpr int64_t kMaxPanels = 8;   // blocks that correct one matrix in workspace
constexpr int kWarp = 32;
constexpr int kTileRows = 3;  // rows of the residual to a thread: four do not fit in shared memory at kMaxShared

constexpr int64_t panelRows(int64_t teamThreads, int64_t columnLanes) { return teamThreads / columnLanes * kTileRows; }

// Words for one matrix: the parts of Work.
constexpr int64_t slabWords(int64_t size, int64_t stride, int64_t panelRows) {
    return size * stride + 2 * size + panelRows * size;
}

// The second term is what eliminate keeps for the pivot.
static_assert(sizeof(float) * slabWords(kMaxShared, kMaxShared | 1, panelRows(kSharedThreads, kWarp)) +
                      (sizeof(float) + sizeof(int32_t)) * (kWorkspaceThreads / kWarp) <=
                  48 * 1024,
              "no room in shared memory");

// A row of the inverse is corrected where its residual has at most this 1-norm. The error that is left in it is then
// at most half of the largest of any row before, so a correction cannot harm; NaN is never at most anything.
constexpr float kMaxResidual = 0.5F;

// The element type is read at run time: it costs nothing beside n^3 steps, and saves two thirds of the kernels.
struct Arguments {
    DType type;
    const void* input;
    void* output;
    int64_t batch;
    int32_t size;
    int32_t teamThreads;  // whole warps
    int32_t columnLanes;  // a power of two up to the warp: neighbouring threads take neighbouring columns
    int32_t panelRows;    // rows of the residual that a team holds at a time
    int32_t panels;       // workspace only: blocks that correct one matrix
    int64_t firstMatrix;  // workspace only: the first of the launch
    float* workspace;
    int64_t slab;  // words of workspace or shared memory for one matrix
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

// One thread a matrix, on [matrix | identity], then the correction row by row. Every index is a constant after
// unrolling, so all of it stays in registers: rows are exchanged by selection. Without the bound of seven blocks the
// compiler aims at fewer registers than n = 3 needs and spills, for sm_80.
template <int kSize>
__global__ void __launch_bounds__(kTinyThreads, 7) tinyKernel(const Arguments a) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t matrix = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; matrix < a.batch;
         matrix += step) {
        const int64_t base = matrix * kSize * kSize;
        float matrixElements[kSize][kSize];
        float left[kSize][kSize];
        float right[kSize][kSize];
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                matrixElements[i][j] = loadElement(a.input, base + i * kSize + j, a.type);
                left[i][j] = matrixElements[i][j];
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
            float residual[kSize];
            float norm = 0.0F;
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                float sum = i == j ? 1.0F : 0.0F;
                float error = 0.0F;
#pragma unroll
                for (int k = 0; k < kSize; ++k) {
                    addProduct(-right[i][k], matrixElements[k][j], sum, error);
                }
                residual[j] = sum + error;
                norm += fabsf(residual[j]);
            }
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                float correction = 0.0F;
#pragma unroll
                for (int k = 0; k < kSize; ++k) {
                    correction = fmaf(residual[k], right[k][j], correction);
                }
                storeElement(a.output, base + i * kSize + j, a.type,
                             norm <= kMaxResidual ? right[i][j] + correction : right[i][j]);
            }
        }
    }
}

// A thread's place in the team, and where it starts and how far it steps in columns and rows of the team's matrix.
struct Place {
    int lane;
    int threads;
    int firstColumn;
    int columnStep;
    int firstRow;
    int rowStep;
};

// One matrix in memory. `inverse` is that of the input with its rows exchanged: row m was row origin[m] of the input,
// and column m of `inverse` is column origin[m] of the result.
struct Work {
    int32_t size;
    int64_t stride;   // words between rows of `inverse`
    float* inverse;   // size rows
    float* column;    // size words: the pivot column, then the 1-norms of the residual's rows
    int32_t* origin;  // size
    float* panel;     // some rows of the residual, of size words each
};

__device__ inline Place placeInTeam(const Arguments& a) {
    const int lane = static_cast<int>(threadIdx.x) % a.teamThreads;
    return {lane,          a.teamThreads,        lane & (a.columnLanes - 1),
            a.columnLanes, lane / a.columnLanes, a.teamThreads / a.columnLanes};
}

__device__ inline Work workIn(float* scratch, int32_t size, int64_t stride) {
    float* column = scratch + size * stride;
    return {size,
            stride,
            scratch,
            column,
            reinterpret_cast<int32_t*>(column + size),
            column + 2 * static_cast<int64_t>(size)};
}

// Loads a matrix and replaces it by its inverse in place, all threads of the team together. All barriers are the
// block's.
__device__ inline void eliminate(const Arguments& a, int64_t base, const Work& w, const Place& p) {
    __shared__ float bestValues[kWorkspaceThreads / kWarp];
    __shared__ int32_t bestRows[kWorkspaceThreads / kWarp];

    const int32_t size = w.size;
    const int thread = static_cast<int>(threadIdx.x);
    float* inverse = w.inverse;
    for (int32_t i = p.firstRow; i < size; i += p.rowStep) {
        for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
            inverse[i * w.stride + j] = loadElement(a.input, base + static_cast<int64_t>(i) * size + j, a.type);
        }
    }
    for (int32_t i = p.lane; i < size; i += p.threads) {
        w.origin[i] = i;
    }
    __syncthreads();

    for (int32_t k = 0; k < size; ++k) {
        // The largest of column k from row k down, the first of equals. NaN is larger than nothing; where there is
        // nothing else it becomes the pivot and spreads.
        float best = -1.0F;
        int32_t bestRow = k;
        for (int32_t i = p.lane; i < size; i += p.threads) {
            const float value = inverse[i * w.stride + k];
            w.column[i] = value;
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
        if (p.lane % kWarp == 0) {
            bestValues[thread / kWarp] = best;
            bestRows[thread / kWarp] = bestRow;
        }
        __syncthreads();

        const int firstWarp = (thread - p.lane) / kWarp;
        best = bestValues[firstWarp];
        bestRow = bestRows[firstWarp];
        for (int warp = firstWarp + 1; warp < firstWarp + p.threads / kWarp; ++warp) {
            if (bestValues[warp] > best || (bestValues[warp] == best && bestRows[warp] < bestRow)) {
                best = bestValues[warp];
                bestRow = bestRows[warp];
            }
        }
        const float pivot = w.column[bestRow];
        if (p.lane == 0) {
            const int32_t chosen = w.origin[bestRow];
            w.origin[bestRow] = w.origin[k];
            w.origin[k] = chosen;
        }
        for (int32_t j = p.lane; j < size; j += p.threads) {
            const float chosen = inverse[bestRow * w.stride + j];
            inverse[bestRow * w.stride + j] = inverse[k * w.stride + j];
            inverse[k * w.stride + j] = (j == k ? 1.0F : chosen) / pivot;
        }
        __syncthreads();

        for (int32_t i = p.firstRow; i < size; i += p.rowStep) {
            if (i != k) {
                const float factor = w.column[i == bestRow ? k : i];  // `column` is older than the exchange
                for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
                    const float value = j == k ? 0.0F : inverse[i * w.stride + j];
                    inverse[i * w.stride + j] = fmaf(-factor, inverse[k * w.stride + j], value);
                }
            }
        }
        __syncthreads();
    }
}

// Rows of I - inverse * exchanged input from `top` on, kTileRows of them to a thread, into `panel`; their norms into
// `column`. The sums cancel nearly all of their products, hence the compensation.
template <typename T>
__device__ inline void residualRows(const T* input, const Work& w, const Place& p, int32_t top) {
    const int32_t size = w.size;
    int32_t rows[kTileRows];
    const float* inverseRows[kTileRows];
    float norms[kTileRows];
#pragma unroll
    for (int q = 0; q < kTileRows; ++q) {
        rows[q] = top + p.firstRow + q * p.rowStep;
        // Beyond the last row a thread repeats that row and keeps nothing.
        inverseRows[q] = w.inverse + (rows[q] < size ? rows[q] : size - 1) * w.stride;
        norms[q] = 0.0F;
    }
    for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
        float sums[kTileRows];
        float errors[kTileRows];
#pragma unroll
        for (int q = 0; q < kTileRows; ++q) {
            sums[q] = rows[q] == j ? 1.0F : 0.0F;
            errors[q] = 0.0F;
        }
#pragma unroll 2
        for (int32_t m = 0; m < size; ++m) {
            const float element = loadFloat(input + static_cast<int64_t>(w.origin[m]) * size + j);
#pragma unroll
            for (int q = 0; q < kTileRows; ++q) {
                addProduct(-inverseRows[q][m], element, sums[q], errors[q]);
            }
        }
#pragma unroll
        for (int q = 0; q < kTileRows; ++q) {
            const float residual = sums[q] + errors[q];
            norms[q] += fabsf(residual);
            if (rows[q] < size) {
                w.panel[static_cast<int64_t>(rows[q] - top) * size + j] = residual;
            }
        }
    }
#pragma unroll
    for (int q = 0; q < kTileRows; ++q) {
        for (int distance = p.columnStep / 2; distance > 0; distance /= 2) {
            norms[q] += __shfl_xor_sync(0xffffffffU, norms[q], distance);
        }
        if (p.firstColumn == 0 && rows[q] < size) {
            w.column[rows[q]] = norms[q];
        }
    }
}

// Stores inverse + residual * inverse for the rows in `panel`. `inverse` itself stays, as every row needs all of it.
__device__ inline void storeRows(void* output, int64_t base, DType type, const Work& w, const Place& p, int32_t top) {
    const int32_t size = w.size;
    int32_t rows[kTileRows];
    const float* residualRows[kTileRows];
#pragma unroll
    for (int q = 0; q < kTileRows; ++q) {
        rows[q] = top + p.firstRow + q * p.rowStep;
        residualRows[q] = w.panel + static_cast<int64_t>((rows[q] < size ? rows[q] : size - 1) - top) * size;
    }
    for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
        float corrections[kTileRows] = {};
#pragma unroll 2
        for (int32_t m = 0; m < size; ++m) {
            const float element = w.inverse[m * w.stride + j];
#pragma unroll
            for (int q = 0; q < kTileRows; ++q) {
                corrections[q] = fmaf(residualRows[q][m], element, corrections[q]);
            }
        }
#pragma unroll
        for (int q = 0; q < kTileRows; ++q) {
            if (rows[q] < size) {
                const float value = w.inverse[rows[q] * w.stride + j];
                storeElement(output, base + static_cast<int64_t>(rows[q]) * size + w.origin[j], type,
                             w.column[rows[q]] <= kMaxResidual ? value + corrections[q] : value);
            }
        }
    }
}

// Stores the corrected inverse, from row `top` on in steps of `step` rows. All barriers are the block's.
__device__ inline void correct(const Arguments& a, int64_t base, const Work& w, const Place& p, int32_t top,
                               int32_t step, bool store) {
    for (; top < w.size; top += step) {
        switch (a.type) {  // outside of the loops over products, unlike loadElement
            case DType::kFloat16:
                residualRows(static_cast<const __half*>(a.input) + base, w, p, top);
                break;
            case DType::kBFloat16:
                residualRows(static_cast<const __nv_bfloat16*>(a.input) + base, w, p, top);
                break;
            default:
                residualRows(static_cast<const float*>(a.input) + base, w, p, top);
        }
        __syncthreads();
        if (store) {
            storeRows(a.output, base, a.type, w, p, top);
        }
        __syncthreads();
    }
}

// Every team of a block takes the same steps, also one without a matrix of its own, which repeats the last and stores
// nothing.
__global__ void __launch_bounds__(kSharedThreads, 3) sharedKernel(const Arguments a) {
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

__global__ void __launch_bounds__(kWorkspaceThreads, 1) eliminateKernel(const Arguments a) {
    const int64_t base = (a.firstMatrix + blockIdx.x) * a.size * a.size;
    eliminate(a, base, workIn(a.workspace + blockIdx.x * a.slab, a.size, a.size), placeInTeam(a));
}

__global__ void __launch_bounds__(kSharedThreads, 2) correctKernel(const Arguments a) {
    const int32_t slab = static_cast<int32_t>(blockIdx.x) / a.panels;
    const int32_t part = static_cast<int32_t>(blockIdx.x) % a.panels;
    const int64_t base = (a.firstMatrix + slab) * a.size * a.size;
    Work work = workIn(a.workspace + slab * a.slab, a.size, a.size);
    work.panel += static_cast<int64_t>(part) * a.panelRows * a.size;
    correct(a, base, work, placeInTeam(a), part * a.panelRows, a.panels * a.panelRows, true);
}

bool possible(const MatrixInverseShape& shape, int64_t& elements) {
    int64_t matrix = 0;
    // The second product bounds n below 2^28 even for an empty batch.
    return elementCount({shape.batch, shape.size, shape.size}, elements) &&
           elementCount({shape.size, shape.size}, matrix);
}

int64_t panelCount(int64_t size) {
    const int64_t panels = ceilDivide(size, panelRows(kSharedThreads, kWarp));
    return panels < kMaxPanels ? panels : kMaxPanels;
}

int64_t workspaceSlab(int64_t size) {
    // Whole 256-byte pieces: no line shared by two matrices.
    return ceilDivide(slabWords(size, size, panelCount(size) * panelRows(kSharedThreads, kWarp)), 64) * 64;
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
    arguments.panelRows = static_cast<int32_t>(panelRows(arguments.teamThreads, arguments.columnLanes));
    arguments.slab = slabWords(size, size | 1, arguments.panelRows < size ? arguments.panelRows : size);
    const int teams = threads / arguments.teamThreads;
    const size_t bytes = static_cast<size_t>(arguments.slab) * static_cast<size_t>(teams) * sizeof(float);
    return launch(sharedKernel, gridBlocks(ceilDivide(arguments.batch, teams)), static_cast<unsigned int>(threads),
                  bytes, stream, arguments);
}

cudaError_t launchWorkspace(Arguments arguments, void* workspace, cudaStream_t stream) {
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
