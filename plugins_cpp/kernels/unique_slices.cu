#include "unique_slices.cuh"

#include "dispatch.cuh"
#include "enumerate.cuh"
#include "merge_sort.cuh"
#include "order_key.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 256;

// A slice by its position, and the order of its first element, which most comparisons end with.
struct alignas(16) Slice {
    uint64_t key;
    int64_t position;
};

struct SliceLess {
    const void* x;
    DType type;
    GatherSlicesShape shape;

    __device__ bool operator()(const Slice& a, const Slice& b) const {
        if (a.key != b.key) {
            return a.key < b.key;
        }
        for (int64_t image = 0; image < shape.outer; ++image) {
            const int64_t ofA = (image * shape.size + a.position) * shape.inner;
            const int64_t ofB = (image * shape.size + b.position) * shape.inner;
            for (int64_t i = image == 0 ? 1 : 0; i < shape.inner; ++i) {
                const uint64_t keyA = orderKey(type, x, ofA + i);
                const uint64_t keyB = orderKey(type, x, ofB + i);
                if (keyA != keyB) {
                    return keyA < keyB;
                }
            }
        }
        return false;
    }
};

__global__ void __launch_bounds__(kThreads)
    keyKernel(const void* x, DType type, GatherSlicesShape shape, Slice* slices) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    const bool empty = shape.outer * shape.inner == 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < shape.size; i += stride) {
        slices[i] = {empty ? 0 : orderKey(type, x, i * shape.inner), i};
    }
}

struct BeginsGroup {
    const Slice* slices;
    SliceLess less;

    __device__ bool operator()(int64_t at) const { return at == 0 || less(slices[at - 1], slices[at]); }
};

struct NoteGroup {
    const Slice* slices;
    int64_t* groups;  // of each position
    int64_t* starts;  // of each group, in the sorted order
    int64_t* firsts;  // of each group, its smallest position

    __device__ void operator()(int64_t at, bool flagged, int64_t before) const {
        const int64_t position = slices[at].position;
        groups[position] = flagged ? before : before - 1;
        if (flagged) {
            starts[before] = at;
            firsts[before] = position;
        }
    }
};

struct IsFirst {
    const int64_t* groups;
    const int64_t* firsts;

    __device__ bool operator()(int64_t position) const { return firsts[groups[position]] == position; }
};

struct NotePlace {
    const int64_t* groups;
    int64_t* places;  // of each group, in the order of first positions

    __device__ void operator()(int64_t position, bool flagged, int64_t before) const {
        if (flagged) {
            places[groups[position]] = before;
        }
    }
};

// places: null where groups stay in the sorted order.
__global__ void __launch_bounds__(kThreads)
    writeKernel(UniqueSlicesParams params, int64_t size, const int64_t* groups, const int64_t* starts,
                const int64_t* firsts, const int64_t* places) {
    const int64_t count = *params.count;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < size; i += stride) {
        params.inverse[i] = places != nullptr ? places[groups[i]] : groups[i];
        if (i < count) {
            const int64_t place = places != nullptr ? places[i] : i;
            params.first[place] = firsts[i];
            params.counts[place] = (i + 1 < count ? starts[i + 1] : size) - starts[i];
        }
    }
}

struct Workspace {
    Slice* slices;
    Slice* spare;
    int64_t* groups;
    int64_t* starts;
    int64_t* firsts;
    int64_t* places;
    int64_t* tiles;
    int64_t* again;  // the number of groups, counted a second time

    Workspace(void* memory, int64_t n)
        : slices(static_cast<Slice*>(memory)),
          spare(slices + n),
          groups(reinterpret_cast<int64_t*>(spare + n)),
          starts(groups + n),
          firsts(starts + n),
          places(firsts + n),
          tiles(places + n),
          again(tiles + enumerateWorkspace(n) / sizeof(int64_t)) {}

    static size_t bytes(int64_t n) {
        const size_t numbers = 4 * static_cast<size_t>(n) + 1;
        return 2 * static_cast<size_t>(n) * sizeof(Slice) + numbers * sizeof(int64_t) + enumerateWorkspace(n);
    }
};

}  // namespace

size_t uniqueSlicesWorkspace(const GatherSlicesShape& shape) {
    return shape.size > 0 && shape.size <= kMaxElements ? Workspace::bytes(shape.size) : 0;
}

cudaError_t uniqueSlices(const UniqueSlicesParams& params, const GatherSlicesShape& shape, void* workspace,
                         cudaStream_t stream) {
    int64_t elements = 0;
    const int64_t n = shape.size;
    if (!elementCount({shape.outer, shape.size, shape.inner}, elements) || n > INT32_MAX || params.count == nullptr) {
        return cudaErrorInvalidValue;
    }
    if (n > 0 && (workspace == nullptr || params.first == nullptr || params.inverse == nullptr ||
                  params.counts == nullptr || (elements > 0 && (params.x == nullptr || params.output == nullptr)))) {
        return cudaErrorInvalidValue;
    }
    const Workspace memory(workspace, n);
    const SliceLess less{params.x, params.type, shape};
    const unsigned int blocks = gridBlocks(ceilDivide(n, kThreads));
    Slice* sorted = nullptr;
    cudaError_t status = cudaSuccess;
    if (n > 0) {
        status = launch(keyKernel, blocks, kThreads, 0, stream, params.x, params.type, shape, memory.slices);
    }
    if (status == cudaSuccess) {
        status = mergeSort(memory.slices, memory.spare, n, less, sorted, stream);
    }
    if (status == cudaSuccess) {
        const NoteGroup note{sorted, memory.groups, memory.starts, memory.firsts};
        status = enumerate(BeginsGroup{sorted, less}, n, params.count, note, memory.tiles, stream);
    }
    if (status != cudaSuccess || n == 0) {
        return status;
    }
    if (!params.sorted) {
        const NotePlace note{memory.groups, memory.places};
        status = enumerate(IsFirst{memory.groups, memory.firsts}, n, memory.again, note, memory.tiles, stream);
    }
    if (status == cudaSuccess) {
        status = launch(writeKernel, blocks, kThreads, 0, stream, params, n, memory.groups, memory.starts,
                        memory.firsts, params.sorted ? nullptr : memory.places);
    }
    if (status != cudaSuccess) {
        return status;
    }
    return gatherSlices({bytesOf(params.type), params.x, params.first, params.count, params.output}, shape, stream);
}

}  // namespace trtsmith
