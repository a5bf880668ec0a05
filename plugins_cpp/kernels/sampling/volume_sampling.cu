#include "kernels/sampling/volume_sampling.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/sampling/channels_last.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kWarp = 32;
// Channels that a thread of the kernel for channels first has: its point's position is computed once for them.
constexpr int32_t kChannelsEach = 8;

struct Arguments {
    VolumeSamplingParams params;
    VolumeSamplingShape shape;
    FastDivider slices;  // of channels
    FastDivider tiles;   // of points
    int32_t pieces;
};

// Of the kernel for channels last. Vectors, 16 bytes of a voxel's channels, are counted with 32 bits.
struct TurnedArguments {
    Arguments plain;
    const uint4* turned;  // [N, voxels, vectors]
    int32_t vectors;
    int32_t row;         // vectors of a row of the volume
    int32_t slab;        // and of a slab
    int32_t groupShift;  // log2 of the vectors of a point in a slice
    bool pairs;          // of 2-byte elements: rows of the output begin at multiples of 4 bytes
};

// Where a point, counted through the images, lies along an axis: 0 is x, 1 is y, 2 is z.
template <typename T, bool kNearest>
__device__ inline VolumePlace placeOf(const Arguments& a, int64_t point, int32_t axis) {
    const VolumeSamplingShape& s = a.shape;
    const int32_t size = static_cast<int32_t>(axis == 0 ? s.width : axis == 1 ? s.height : s.depth);
    const float given = loadFloat(static_cast<const T*>(a.params.grid) + point * 3 + axis);
    return volumePlace<kNearest>(paddedPosition(given, size, s.padding, s.aligned), size);
}

template <bool kNearest>
__device__ inline VolumeCell<kNearest> cellOf(const Arguments& a, const VolumePlace (&places)[3]) {
    return volumeCell<kNearest>(places[0], places[1], places[2], static_cast<int32_t>(a.shape.height),
                                static_cast<int32_t>(a.shape.width));
}

// The sums of a point's vector of channels over the voxels around it. volume: the vector of voxel 0.
template <typename T, bool kNearest, int kVector>
__device__ inline void sampleVector(const TurnedArguments& a, const VolumePlace (&places)[3], const uint4* volume,
                                    float (&sums)[kVector]) {
    using Cell = VolumeCell<kNearest>;
    const Cell cell = cellOf<kNearest>(a.plain, places);
    const int32_t first = places[2].low * a.slab + places[1].low * a.row + places[0].low * a.vectors;
    uint4 words[Cell::kCorners];
#pragma unroll
    for (int i = 0; i < Cell::kCorners; ++i) {
        const int32_t further = (i & 1) * a.vectors + ((i >> 1) & 1) * a.row + (i >> 2) * a.slab;
        words[i] = uint4{0U, 0U, 0U, 0U};
        if ((cell.exists >> i & 1U) != 0U) {
            words[i] = __ldg(volume + (first + further));
        }
    }
#pragma unroll
    for (int i = 0; i < Cell::kCorners; ++i) {
        T elements[kVector];
        memcpy(static_cast<void*>(elements), &words[i], sizeof words[i]);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            sums[v] = fmaf(cell.weights[i], toFloat(elements[v]), sums[v]);
        }
    }
}

// From volumes with their channels last. A thread has one vector of channels of a point; the tile of 64 points is turned in
// shared memory, so that neighbouring threads write neighbouring points.
template <typename T, bool kNearest>
__global__ void __launch_bounds__(kThreads, 4) turnedKernel(const __grid_constant__ TurnedArguments a) {
    using Tile = ChannelTile<sizeof(T)>;
    constexpr int kVector = Tile::kVector;
    constexpr int32_t kWarps = kThreads / kWarp;
    __shared__ __align__(16) T tile[Tile::kElements];
    __shared__ VolumePlace places[Tile::kPlaces * 3];
    static_assert(Tile::kPlaces * 3 <= kThreads);
    const VolumeSamplingShape& s = a.plain.shape;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lane = thread % kWarp;
    const int32_t group = thread & ((1 << a.groupShift) - 1);
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.plain.pieces;
         piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t rest = a.plain.slices.quotient(piece);
        const int32_t slice = piece - rest * static_cast<int32_t>(a.plain.slices.divisor);
        const int32_t image = a.plain.tiles.quotient(rest);
        const int64_t firstPoint = int64_t{rest - image * static_cast<int32_t>(a.plain.tiles.divisor)} * Tile::kPlaces;
        const int32_t points = least(s.points - firstPoint, Tile::kPlaces);
        // A thread finds a point's place along one axis, for all of the point's vectors.
        if (thread < points * 3) {
            places[thread] = placeOf<T, kNearest>(a.plain, image * s.points + firstPoint + thread / 3, thread % 3);
        }
        waitForTurning();  // which does not write the grid
        __syncthreads();
        const int32_t vector = slice * Tile::kGroups + group;
        const uint4* const volume = a.turned + image * s.depth * a.slab + vector;
        const int32_t most = vector < a.vectors ? points : 0;
        for (int32_t point = thread >> a.groupShift; point < most; point += kThreads >> a.groupShift) {
            const VolumePlace found[3] = {places[3 * point], places[3 * point + 1], places[3 * point + 2]};
            float sums[kVector] = {};
            sampleVector<T, kNearest>(a, found, volume, sums);
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                tile[(group * kVector + v) * Tile::kPitch + point] = fromFloat<T>(sums[v]);
            }
        }
        __syncthreads();
        const int32_t rows = least(s.channels - slice * Tile::kChannels, Tile::kChannels);
        const int32_t warp = thread / kWarp;
        T* target = static_cast<T*>(a.plain.params.output) +
                    (image * s.channels + slice * Tile::kChannels + warp) * s.points + firstPoint;
        for (int32_t row = warp; row < rows; row += kWarps, target += kWarps * s.points) {
            const T* const source = tile + row * Tile::kPitch;
            if (sizeof(T) == 2 && a.pairs) {
                if (2 * lane < points) {
                    reinterpret_cast<uint32_t*>(target)[lane] = reinterpret_cast<const uint32_t*>(source)[lane];
                }
            } else {
                if (lane < points) {
                    target[lane] = source[lane];
                }
                if (lane + kWarp < points) {
                    target[lane + kWarp] = source[lane + kWarp];
                }
            }
        }
    }
}

// From volumes as they are. A thread has one point and kChannelsEach channels. Index: counts the voxels of a volume.
template <typename T, bool kNearest, typename Index>
__global__ void __launch_bounds__(kThreads) directKernel(const __grid_constant__ Arguments a) {
    using Cell = VolumeCell<kNearest>;
    const VolumeSamplingShape& s = a.shape;
    const Index width = static_cast<Index>(s.width);
    const Index slab = static_cast<Index>(s.height) * width;
    const int64_t voxels = s.depth * slab;
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.pieces; piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t rest = a.tiles.quotient(piece);
        const int64_t point = int64_t{piece - rest * static_cast<int32_t>(a.tiles.divisor)} * kThreads +
                              static_cast<int32_t>(threadIdx.x);
        const int32_t image = a.slices.quotient(rest);
        const int64_t channel = int64_t{rest - image * static_cast<int32_t>(a.slices.divisor)} * kChannelsEach;
        if (point >= s.points) {
            continue;
        }
        VolumePlace places[3];
#pragma unroll
        for (int32_t axis = 0; axis < 3; ++axis) {
            places[axis] = placeOf<T, kNearest>(a, image * s.points + point, axis);
        }
        const Cell cell = cellOf<kNearest>(a, places);
        const Index first = (places[2].low * static_cast<Index>(s.height) + places[1].low) * width + places[0].low;
        const int32_t count = least(s.channels - channel, kChannelsEach);
        const int64_t row = image * s.channels + channel;
        const T* volume = static_cast<const T*>(a.params.x) + row * voxels;
        T* target = static_cast<T*>(a.params.output) + row * s.points + point;
#pragma unroll 2
        for (int32_t c = 0; c < count; ++c) {
            float sum = 0.0F;
            float values[Cell::kCorners];
#pragma unroll
            for (int i = 0; i < Cell::kCorners; ++i) {
                values[i] = 0.0F;
                if ((cell.exists >> i & 1U) != 0U) {
                    values[i] = loadFloat(volume + (first + (i >> 2) * slab + ((i >> 1) & 1) * width + (i & 1)));
                }
            }
#pragma unroll
            for (int i = 0; i < Cell::kCorners; ++i) {
                sum = fmaf(cell.weights[i], values[i], sum);
            }
            *target = fromFloat<T>(sum);
            target += s.points;
            volume += voxels;
        }
    }
}

// Turning pays where a voxel is read for several channels at once, and where there are not many more voxels than points:
// it moves every voxel twice, as much as a point's eight reads of one channel.
bool isTurned(size_t bytes, const VolumeSamplingShape& s) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const int64_t vector = 16 / static_cast<int64_t>(bytes);
    const int64_t voxels = s.depth * s.height * s.width;
    const int64_t vectors = ceilDivide(s.channels, vector);
    return s.channels >= vector && s.points >= voxels / 4 && (s.height + 1) * s.width + 1 <= kMost / vectors &&
           voxels <= kMost / vectors && isTurnable(s.batch, s.channels, voxels) &&
           isTurnable(s.batch, s.channels, s.points);
}

template <typename T, bool kNearest>
cudaError_t sampleTurned(const Arguments& plain, void* workspace, cudaStream_t stream) {
    using Tile = ChannelTile<sizeof(T)>;
    const VolumeSamplingShape& s = plain.shape;
    const int64_t voxels = s.depth * s.height * s.width;
    const cudaError_t status = channelsLast<T>(plain.params.x, workspace, s.batch, s.channels, voxels, stream);
    if (status != cudaSuccess) {
        return status;
    }
    TurnedArguments a{};
    a.plain = plain;
    a.turned = static_cast<const uint4*>(workspace);
    a.vectors = static_cast<int32_t>(ceilDivide(s.channels, Tile::kVector));
    a.row = static_cast<int32_t>(s.width * a.vectors);
    a.slab = static_cast<int32_t>(s.height * a.row);
    const int64_t slices = ceilDivide(s.channels, Tile::kChannels);
    const int64_t tiles = ceilDivide(s.points, Tile::kPlaces);
    a.plain.slices = FastDivider(slices);
    a.plain.tiles = FastDivider(tiles);
    a.plain.pieces = static_cast<int32_t>(s.batch * slices * tiles);
    while ((1 << a.groupShift) < Tile::kGroups && (1 << a.groupShift) < a.vectors) {
        ++a.groupShift;
    }
    a.pairs = s.points % 2 == 0 && isAligned(plain.params.output, 4);
    return launchAfterTurning(turnedKernel<T, kNearest>, gridBlocks(a.plain.pieces), kThreads, 0, stream, a);
}

template <typename T, bool kNearest>
cudaError_t sample(Arguments& a, void* workspace, cudaStream_t stream) {
    const VolumeSamplingShape& s = a.shape;
    if (isTurned(sizeof(T), s)) {
        return sampleTurned<T, kNearest>(a, workspace, stream);
    }
    const int64_t slices = ceilDivide(s.channels, kChannelsEach);
    const int64_t tiles = ceilDivide(s.points, kThreads);
    a.slices = FastDivider(slices);
    a.tiles = FastDivider(tiles);
    a.pieces = static_cast<int32_t>(s.batch * slices * tiles);
    const bool isShort = s.depth * s.height * s.width <= std::numeric_limits<int32_t>::max();
    const auto kernel = isShort ? directKernel<T, kNearest, int32_t> : directKernel<T, kNearest, int64_t>;
    return launch(kernel, gridBlocks(a.pieces), kThreads, 0, stream, a);
}

bool isValid(const VolumeSamplingParams& p, const VolumeSamplingShape& s, int64_t& outputs) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t inputs = 0;
    int64_t padded = 0;
    int64_t points = 0;
    if (s.depth > kMost || s.height > kMost || s.width > kMost ||
        !elementCount({s.batch, s.channels, s.depth, s.height, s.width}, inputs) || s.channels > kMaxElements ||
        !elementCount({s.batch, s.channels + 8, s.depth, s.height, s.width}, padded) ||
        !elementCount({s.batch, s.points, 3}, points) || !elementCount({s.batch, s.channels, s.points}, outputs)) {
        return false;
    }
    // A block has at least kThreads points, or a tile of 64 with 32 channels.
    int64_t blocks = 0;
    if (!elementCount({s.batch, s.channels, ceilDivide(s.points, kThreads)}, blocks) || blocks > kMost / 2) {
        return false;
    }
    const bool hasInputs = (inputs == 0 || p.x != nullptr) && (points == 0 || p.grid != nullptr);
    return outputs == 0 || (hasInputs && p.output != nullptr);
}

}  // namespace

size_t volumeSamplingWorkspace(DType type, const VolumeSamplingShape& shape) {
    const size_t bytes = bytesOf(type);
    int64_t count = 0;
    const bool fits = shape.channels >= 0 && shape.channels <= kMaxElements &&
                      elementCount({shape.batch, paddedChannels(shape.channels, bytes), shape.depth, shape.height,
                                    shape.width, static_cast<int64_t>(bytes)},
                                   count);
    return fits && isTurned(bytes, shape) ? static_cast<size_t>(count) : 0;
}

cudaError_t volumeSampling(const VolumeSamplingParams& params, const VolumeSamplingShape& shape, void* workspace,
                           cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs) ||
        (outputs > 0 && workspace == nullptr && volumeSamplingWorkspace(params.type, shape) > 0)) {
        return cudaErrorInvalidValue;
    }
    Arguments a{params, shape, FastDivider(), FastDivider(), 0};
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        return shape.nearest ? sample<T, true>(a, workspace, stream) : sample<T, false>(a, workspace, stream);
    });
}

}  // namespace trtsmith
