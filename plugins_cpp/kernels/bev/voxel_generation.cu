#include "kernels/bev/voxel_generation.cuh"

#include <cmath>

#include "kernels/bev/voxel_generation_write.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/enumerate.cuh"

namespace trtsmith {
namespace {

using namespace voxel_generation;

constexpr int64_t kMaxPoints = int64_t{1} << 30;

// The slot of a cell in its frame's part of the table, which is at least twice as large as the points are many. Where a
// cell gets its slot depends on who comes first; what the slot holds in the end does not.
__device__ int32_t findSlot(Slot* table, uint32_t cell, int32_t bits) {
    const uint32_t last = (1u << bits) - 1;
    for (uint32_t at = (cell * 2654435769u) >> (32 - bits);; at = (at + 1) & last) {
        uint32_t found = *static_cast<volatile uint32_t*>(&table[at].cell);
        if (found == kNone) {
            found = atomicCAS(&table[at].cell, kNone, cell);
        }
        if (found == kNone || found == cell) {
            return static_cast<int32_t>(at);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) insertKernel(const __grid_constant__ Arguments a) {
    const T* const points = static_cast<const T*>(a.params.points);
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.allPoints; i += step) {
        const int32_t frame = a.byPoints.quotient(static_cast<int32_t>(i));
        const int32_t number = static_cast<int32_t>(i - frame * a.shape.points);
        int32_t slot = -1;
        if (number < a.params.counts[frame]) {
            const T* const point = points + i * a.shape.width;
            const float position[3] = {toFloat(point[0]), toFloat(point[1]), toFloat(point[2])};
            int32_t place[3];
            if (placeOf(a, position, place)) {
                const int64_t cell = (place[2] * a.cellsY + place[1]) * a.cellsX + place[0];
                Slot* const table = a.table + (int64_t{frame} << a.bits);
                slot = findSlot(table, static_cast<uint32_t>(cell), a.bits);
                // A cell's first point only becomes smaller: one that is smaller already needs no atomic.
                if (*static_cast<volatile uint32_t*>(&table[slot].first) > static_cast<uint32_t>(number)) {
                    atomicMin(&table[slot].first, static_cast<uint32_t>(number));
                }
            }
        }
        a.slots[i] = slot;
    }
}

struct IsFirst {
    const Slot* table;
    const int32_t* slots;
    FastDivider byPoints;
    int64_t points;
    int32_t bits;

    __device__ bool operator()(int64_t i) const {
        const int32_t slot = slots[i];
        if (slot < 0) {
            return false;
        }
        const int32_t frame = byPoints.quotient(static_cast<int32_t>(i));
        return table[(int64_t{frame} << bits) + slot].first == static_cast<uint32_t>(i - frame * points);
    }
};

// Numbers cells by their first points. The number takes the place of the cell, which nobody needs any more.
struct NoteNumber {
    Slot* table;
    const int32_t* slots;
    int64_t* starts;
    FastDivider byPoints;
    int64_t points;
    int32_t bits;

    __device__ void operator()(int64_t i, bool flagged, int64_t before) const {
        const int32_t frame = byPoints.quotient(static_cast<int32_t>(i));
        if (i == frame * points) {
            starts[frame] = before;
        }
        if (flagged) {
            table[(int64_t{frame} << bits) + slots[i]].cell = static_cast<uint32_t>(before);
        }
    }
};

// Each voxel's list gets its first points in order, by atomicMin down the list: a place keeps the smallest number that came
// by, and hands the other on. So place k ends with the smallest but k, whoever came first.
__global__ void __launch_bounds__(kThreads) listKernel(const __grid_constant__ Arguments a) {
    const int64_t step = int64_t{gridDim.x} * kThreads;
    const int64_t most = a.shape.maxPoints;
    for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.allPoints; i += step) {
        const int32_t slot = a.slots[i];
        if (slot < 0) {
            continue;
        }
        const int32_t frame = a.byPoints.quotient(static_cast<int32_t>(i));
        const int64_t voxel = a.table[(int64_t{frame} << a.bits) + slot].cell - a.starts[frame];
        if (voxel >= a.shape.maxVoxels) {
            continue;
        }
        uint32_t* const list = a.lists + (frame * a.shape.maxVoxels + voxel) * most;
        uint32_t number = static_cast<uint32_t>(i - frame * a.shape.points);
        if (*static_cast<volatile uint32_t*>(list + most - 1) < number) {
            continue;
        }
        for (int64_t k = 0; k < most && number != kNone; ++k) {
            if (*static_cast<volatile uint32_t*>(list + k) > number) {
                const uint32_t found = atomicMin(list + k, number);
                number = found > number ? found : number;
            }
        }
    }
}

int64_t tableBits(int64_t points) {
    int64_t bits = 1;
    while ((int64_t{1} << bits) < 2 * points) {
        ++bits;
    }
    return bits;
}

// Bytes of each part of the workspace, the first three of which begin with ones; all are multiples of 8.
struct Parts {
    size_t table;
    size_t lists;
    size_t starts;
    size_t slots;
    size_t tiles;

    explicit Parts(const VoxelGenerationShape& s)
        : table(static_cast<size_t>(s.frames << tableBits(s.points)) * sizeof(Slot)),
          lists(static_cast<size_t>((s.frames * s.maxVoxels * s.maxPoints + 1) / 2) * 8),
          starts(static_cast<size_t>(s.frames + 1) * sizeof(int64_t)),
          slots(static_cast<size_t>((s.frames * s.points + 1) / 2) * 8),
          tiles(enumerateWorkspace(s.frames * s.points)) {}

    size_t all() const { return table + lists + starts + slots + tiles; }
};

struct Counts {
    int64_t points;  // of all frames
    int64_t voxels;
    int64_t numbers;  // of all voxels
};

bool countAll(const VoxelGenerationShape& s, Counts& c) {
    int64_t numbers = 0;
    int64_t ofVoxel = 0;
    return elementCount({s.frames, s.points}, c.points) && c.points <= kMaxPoints && s.points <= kMaxPoints &&
           elementCount({s.frames, s.points, s.width}, numbers) && elementCount({s.frames, s.maxVoxels, 4}, c.voxels) &&
           elementCount({s.maxPoints, s.features}, ofVoxel) && ofVoxel <= INT32_MAX &&
           elementCount({s.frames, s.maxVoxels, s.maxPoints, s.features}, c.numbers);
}

template <typename T>
cudaError_t sortIn(const Arguments& a, cudaStream_t stream) {
    const unsigned int blocks = gridBlocks(ceilDivide(a.allPoints, kThreads));
    cudaError_t status = launch(insertKernel<T>, blocks, kThreads, 0, stream, a);
    if (status == cudaSuccess) {
        const IsFirst first{a.table, a.slots, a.byPoints, a.shape.points, a.bits};
        const NoteNumber note{a.table, a.slots, a.starts, a.byPoints, a.shape.points, a.bits};
        status = enumerate(first, a.allPoints, a.starts + a.shape.frames, note, a.tiles, stream);
    }
    return status == cudaSuccess ? launch(listKernel, blocks, kThreads, 0, stream, a) : status;
}

}  // namespace

bool voxelGrid(const VoxelGenerationShape& shape, float (&grid)[3]) {
    float cells = 1;
    for (int axis = 0; axis < 3; ++axis) {
        const float extent = shape.high[axis] - shape.low[axis];
        // Half to even, as NVIDIA's plugin and mmcv have it; std::nearbyint rounds so by default.
        grid[axis] = shape.pillars && axis == 2 ? 1.0F : std::nearbyint(extent / shape.size[axis]);
        if (!(shape.size[axis] > 0) || !(extent > 0) || !std::isfinite(extent) || !(grid[axis] >= 1)) {
            return false;
        }
        cells *= grid[axis];
    }
    return cells < 2147483648.0F;
}

size_t voxelGenerationWorkspace(const VoxelGenerationShape& shape) {
    Counts counts{};
    return countAll(shape, counts) ? Parts(shape).all() : 0;
}

cudaError_t voxelGeneration(const VoxelGenerationParams& params, const VoxelGenerationShape& shape, void* workspace,
                            cudaStream_t stream) {
    Arguments a{};
    Counts counts{};
    if (!countAll(shape, counts) || !voxelGrid(shape, a.grid) || shape.width < 3 || shape.maxVoxels < 1 ||
        shape.maxPoints < 1 || shape.features < 1 || shape.features > shape.width + 6) {
        return cudaErrorInvalidValue;
    }
    if (shape.frames > 0 && (params.voxels == nullptr || params.coords == nullptr || params.pointCounts == nullptr ||
                             params.voxelCounts == nullptr || params.counts == nullptr || workspace == nullptr ||
                             (counts.points > 0 && params.points == nullptr))) {
        return cudaErrorInvalidValue;
    }
    const Parts parts(shape);
    char* const memory = static_cast<char*>(workspace);
    a.params = params;
    a.shape = shape;
    a.cellsX = static_cast<int64_t>(a.grid[0]);
    a.cellsY = static_cast<int64_t>(a.grid[1]);
    a.allPoints = counts.points;
    a.bits = static_cast<int32_t>(tableBits(shape.points));
    a.table = reinterpret_cast<Slot*>(memory);
    a.lists = reinterpret_cast<uint32_t*>(memory + parts.table);
    a.starts = reinterpret_cast<int64_t*>(memory + parts.table + parts.lists);
    a.slots = reinterpret_cast<int32_t*>(memory + parts.table + parts.lists + parts.starts);
    a.tiles = memory + parts.table + parts.lists + parts.starts + parts.slots;
    a.byPoints = FastDivider(shape.points > 0 ? shape.points : 1);
    a.byFeatures = FastDivider(shape.features);
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (shape.frames == 0) {
            return cudaSuccess;
        }
        // Without points no frame has a start, and all of them are 0.
        const size_t ones = counts.points > 0 ? parts.table + parts.lists : 0;
        cudaError_t status = cudaMemsetAsync(memory, 0xff, ones, stream);
        if (counts.points == 0) {
            status = cudaMemsetAsync(a.starts, 0, parts.starts, stream);
        } else if (status == cudaSuccess) {
            status = sortIn<T>(a, stream);
        }
        return status == cudaSuccess ? writeVoxels<T>(a, stream) : status;
    });
}

}  // namespace trtsmith
