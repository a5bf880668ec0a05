#include "kernels/neighbourhood_attention.cuh"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <type_traits>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/exp2.cuh"
#include "kernels/fast_division.cuh"
#include "kernels/neighbourhood_attention_products.cuh"

// A block has a tile of 64 places of one head, which know each other's neighbours: they are of one group along each axis.
// It reads the box of all their neighbours, kKeys at a time into shared memory, while the next are on their way. A warp has
// 16 of the places, and computes with the neighbours from the first to the last of any of these, 16 at a time: scores, the
// mask, shares and sums of values as in FlashAttention (arXiv 2205.14135), with tensor cores for 16 bits (sm_80 and later).
// On Hopper, where a head has more than 32 numbers, the warps compute together, with all keys of a step.
namespace trtsmith {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kLogTile = 6;  // places of a block
constexpr int kWidest = 128;

struct Axis {
    int length, kernel;
    bool causal;
    FastDivider stride, dilation;
    int64_t pitch;        // elements from a place of a group to the next
    int words = 0;        // of 16 bytes, the same
    FastDivider tiles{};  // of a group
    int log = 0;          // of the tile's side
    int shift = 0;        // of this axis in a word of places
};

struct Arguments {
    NeighbourhoodAttentionParams params;
    Axis axes[3];
    uint32_t guards;  // one bit above each axis in a word of places
    FastDivider heads;
    int width;
    float scale;  // for powers of two
};

// Leaves the quotient, and gives the remainder.
__device__ int divide(int& value, const FastDivider& divider) {
    const int remainder = value;
    value = divider.quotient(value);
    return remainder - value * static_cast<int>(divider.divisor);
}

// Places of a group of an axis.
__device__ int placesOf(const Axis& axis, int group) { return axis.dilation.quotient(axis.length - group - 1) + 1; }

// The neighbours of a place of a group of `size` places. Both ends grow with the place.
__device__ void findNeighbours(const Axis& axis, int place, int size, int& first, int& last) {
    const int stride = static_cast<int>(axis.stride.divisor);
    const int leader = min(axis.stride.quotient(place) * stride + (axis.causal ? stride - 1 : stride / 2), size - 1);
    first = axis.causal ? max(leader - axis.kernel + 1, 0) : min(max(leader - axis.kernel / 2, 0), size - axis.kernel);
    last = axis.causal ? place : first + axis.kernel - 1;
}

// Attention of one place of a head by a warp, one neighbour after the other, for any width.
template <typename T>
__device__ void attendAlone(const Arguments& a, int64_t row) {
    constexpr int kOwn = 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t own = row * a.width;
    int64_t start = own;
    int64_t rest = row / a.heads.divisor;
    int count[3];
    for (int i = 2; i >= 0; --i) {
        const Axis& axis = a.axes[i];
        int place = static_cast<int>(rest % axis.length);
        rest /= axis.length;
        const int group = divide(place, axis.dilation);
        int first, last;
        findNeighbours(axis, place, placesOf(axis, group), first, last);
        count[i] = last - first + 1;
        start += (first - place) * axis.pitch;
    }
    const T* const query = static_cast<const T*>(a.params.q) + own;
    for (int begin = 0; begin < a.width; begin += 32 * kOwn) {
        float best = -FLT_MAX;
        float total = 0.0F;
        float sums[kOwn] = {};
        for (int x = 0; x < count[0]; ++x) {
            for (int y = 0; y < count[1]; ++y) {
                for (int z = 0; z < count[2]; ++z) {
                    const int64_t at = start + x * a.axes[0].pitch + y * a.axes[1].pitch + z * a.axes[2].pitch;
                    float score = 0.0F;
                    for (int i = lane; i < a.width; i += 32) {
                        score =
                            fmaf(loadFloat(query + i), loadFloat(static_cast<const T*>(a.params.k) + at + i), score);
                    }
                    score = warpSum(score) * a.scale;
                    const float next = fmaxf(best, score);
                    const float factor = exp2Fast(best - next);
                    const float share = exp2Fast(score - next);
                    best = next;
                    total = total * factor + share;
                    for (int i = 0; i < kOwn; ++i) {
                        const int column = begin + 32 * i + lane;
                        const T* const values = static_cast<const T*>(a.params.v) + at;
                        sums[i] = sums[i] * factor + share * loadFloat(values + column, column < a.width);
                    }
                }
            }
        }
        for (int i = 0; i < kOwn; ++i) {
            const int at = begin + 32 * i + lane;
            if (at < a.width) {
                static_cast<T*>(a.params.output)[own + at] = fromFloat<T>(sums[i] / total);
            }
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) aloneKernel(const __grid_constant__ Arguments a, int64_t count) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; i < count; i += step) {
        attendAlone<T>(a, i);
    }
}

// Blocks of a multiprocessor at a time for rows of that many bytes, as registers allow. Measured on an H100 in float16: 32
// images of 56 x 56, 4 heads of 32, 7 x 7 neighbours take 95 us so, 102 us with one block less, and 127 us with blocks of 128
// places; 128 x 128, 16 heads of 128, 13 x 13 take 347, 348 and 391 us, and on an H200 345, and 229 together.
constexpr int blocksFor(int bytes, bool together) {
    return bytes <= 64 ? 5 : bytes <= 128 || together ? 4 : bytes <= 256 ? 3 : 2;
}

template <typename T, int kWidth>
constexpr bool kTogether = kHopper && sizeof(T) == 2 && kWidth >= 64;

template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads, blocksFor(kWidth* static_cast<int>(sizeof(T)), kTogether<T, kWidth>))
    tileKernel(const __grid_constant__ Arguments a) {
    constexpr int kWord = 16 / static_cast<int>(sizeof(T));
    constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
    constexpr int kKeys = kBytes <= 128 ? 64 : 8192 / kBytes;
    constexpr float kSlack = 8.0F;  // shares may be up to 2^8 before all are scaled down again
    using Products = std::conditional_t<
        kTogether<T, kWidth>, HopperProducts<T, kWidth, kKeys>,
        std::conditional_t<kModern && sizeof(T) == 2, TensorProducts<T, kWidth>, ScalarProducts<T, kWidth>>>;
    constexpr int kTile = kKeys * Products::kPitch;
    __shared__ __align__(1024) T keys[2][kTile];
    __shared__ __align__(1024) T values[2][kTile];
    __shared__ int2 box[4][kKeys];  // of a key its row, in words from the first, and its place as a word

    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int part = lane % 4;
    int rest = static_cast<int>(blockIdx.x);
    const int head = divide(rest, a.heads);
    int begin[3], group[3], size[3], low[3], count[3];
    for (int i = 2; i >= 0; --i) {
        begin[i] = divide(rest, a.axes[i].tiles) << a.axes[i].log;
        group[i] = divide(rest, a.axes[i].dilation);
    }
    int64_t origin = rest;
    for (int i = 0; i < 3; ++i) {
        const Axis& axis = a.axes[i];
        size[i] = placesOf(axis, group[i]);
        if (begin[i] >= size[i]) {
            return;
        }
        int other, high;
        findNeighbours(axis, begin[i], size[i], low[i], other);
        findNeighbours(axis, min(begin[i] + (1 << axis.log), size[i]) - 1, size[i], other, high);
        count[i] = high - low[i] + 1;
        origin = origin * axis.length + group[i] + static_cast<int64_t>(low[i]) * axis.dilation.divisor;
    }
    origin = (origin * a.heads.divisor + head) * a.width;
    const int boxed = count[0] * count[1] * count[2];

    bool there[2];
    int row[2];  // in words from the box's first
    uint32_t first[2], last[2];
    int firstKey = boxed;
    int endKey = 0;
    for (int i = 0; i < 2; ++i) {
        int place = thread / 32 * kPlaces + lane / 4 + 8 * i;
        int from = 0;
        int to = 0;
        int step = 1;
        there[i] = true;
        first[i] = 0;
        last[i] = a.guards;
        row[i] = 0;
        for (int j = 2; j >= 0; --j) {
            const Axis& axis = a.axes[j];
            const int at = begin[j] + (place & ((1 << axis.log) - 1));
            place >>= axis.log;
            there[i] = there[i] && at < size[j];
            int least, most;
            findNeighbours(axis, min(at, size[j] - 1), size[j], least, most);
            first[i] |= static_cast<uint32_t>(least - low[j]) << axis.shift;
            last[i] |= static_cast<uint32_t>(most - low[j]) << axis.shift;
            from += (least - low[j]) * step;
            to += (most - low[j]) * step;
            step *= count[j];
            row[i] += (at - low[j]) * axis.words;
        }
        if (there[i]) {
            firstKey = min(firstKey, from);
            endKey = max(endKey, to + 1);
        } else {
            first[i] = ~a.guards;
            last[i] = a.guards;
        }
    }
    for (int apart = 4; apart < 32; apart *= 2) {
        firstKey = min(firstKey, __shfl_xor_sync(kAllLanes, firstKey, apart));
        endKey = max(endKey, __shfl_xor_sync(kAllLanes, endKey, apart));
    }

    const int plane = count[1] * count[2];
    const float perPlane = __fdividef(1.0F, static_cast<float>(plane));
    const float perLine = __fdividef(1.0F, static_cast<float>(count[2]));
    const auto locate = [&](int tile) {
        const int at = tile * kKeys + thread;
        if (thread >= kKeys) {
            return;
        }
        int2 found{-1, count[0] << a.axes[0].shift};  // a place that is nobody's neighbour
        if (at < boxed) {
            // Exact quotients: the box is of 2^20 places at most.
            const int x = static_cast<int>((static_cast<float>(at) + 0.5F) * perPlane);
            const int inPlane = at - x * plane;
            const int y = static_cast<int>((static_cast<float>(inPlane) + 0.5F) * perLine);
            const int z = inPlane - y * count[2];
            found.x = x * a.axes[0].words + y * a.axes[1].words + z * a.axes[2].words;
            found.y = x << a.axes[0].shift | y << a.axes[1].shift | z;
        }
        box[tile % 4][thread] = found;
    };
    const T* const fromKeys = static_cast<const T*>(a.params.k) + origin;
    const T* const fromValues = static_cast<const T*>(a.params.v) + origin;
    const auto load = [&](int tile) {
        constexpr int kWords = kWidth / kWord;
        const int word = thread % kWords * kWord;
        for (int i = 0; i < kKeys * kWords / kThreads; ++i) {
            const int key = thread / kWords + i * (kThreads / kWords);
            const int found = box[tile % 4][key].x;
            const bool valid = found >= 0 && word < a.width;
            const int64_t from = valid ? static_cast<int64_t>(found) * kWord + word : 0;
            const int to = Products::place(key, word);
            copyRow(keys[tile % 2] + to, fromKeys + from, valid);
            copyRow(values[tile % 2] + to, fromValues + from, valid);
        }
    };

    locate(0);
    locate(1);
    __syncthreads();
    load(0);
    Products products;
    float sums[kWidth / 2] = {};
    for (int n = 0; n < kWidth / 8; ++n) {
        const int at = Products::dimension(n, part);
        for (int i = 0; i < 2; ++i) {
            T pair[2];
            loadElements<2>(static_cast<const T*>(a.params.q) + origin + int64_t{row[i]} * kWord + at,
                            there[i] && at < a.width, pair);
            products.keep(n, i, pair);
        }
    }
    float best[2] = {-FLT_MAX, -FLT_MAX};  // not infinite: of no neighbours at all, shares are 0
    float total[2] = {0.0F, 0.0F};
    for (int tile = 0; tile * kKeys < boxed; ++tile) {
        if constexpr (kModern) {
            waitAsyncCopies();
        }
        if constexpr (kTogether<T, kWidth>) {
            hopper::fenceAsync();
        }
        __syncthreads();
        if ((tile + 1) * kKeys < boxed) {
            load(tile + 1);
            locate(tile + 2);
        }
#pragma unroll 1
        for (int at = 0; at < kKeys; at += Products::kAtOnce) {
            if (!kTogether<T, kWidth> &&
                (tile * kKeys + at + Products::kAtOnce <= firstKey || tile * kKeys + at >= endKey)) {
                continue;
            }
            float scores[Products::kAtOnce / 2];
            products.score(keys[tile % 2] + at * Products::kPitch, lane, scores);
            float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
            for (int j = 0; j < Products::kAtOnce / 4; ++j) {
                const uint32_t place = static_cast<uint32_t>(box[tile % 4][at + Products::column(j, part)].y);
                for (int i = 0; i < 2; ++i) {
                    // A guard is left where the place is not before the first neighbour along the axis, nor after the last.
                    const uint32_t left = ((place | a.guards) - first[i]) & (last[i] - place) & a.guards;
                    float& score = scores[j / 2 * 4 + 2 * i + j % 2];
                    score = left == a.guards ? score : -INFINITY;
                    most[i] = fmaxf(most[i], score);
                }
            }
            most[0] *= a.scale;
            most[1] *= a.scale;
            if (__any_sync(kAllLanes, most[0] > best[0] + kSlack || most[1] > best[1] + kSlack)) {
                for (int i = 0; i < 2; ++i) {
                    most[i] = fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 1));
                    most[i] = fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 2));
                    const float next = fmaxf(best[i], most[i]);
                    const float factor = exp2Fast(best[i] - next);
                    best[i] = next;
                    total[i] *= factor;
                    for (int n = 2 * i; n < kWidth / 2; n += 4) {
                        sums[n] *= factor;
                        sums[n + 1] *= factor;
                    }
                }
            }
#pragma unroll
            for (int j = 0; j < Products::kAtOnce / 2; ++j) {
                scores[j] = exp2Fast(fmaf(scores[j], a.scale, -best[j / 2 % 2]));
                total[j / 2 % 2] += scores[j];
            }
            Products::add(values[tile % 2] + at * Products::kPitch, lane, scores, sums);
        }
    }

    uint32_t spoilt[2];
    for (int i = 0; i < 2; ++i) {
        total[i] += __shfl_xor_sync(kAllLanes, total[i], 1);
        total[i] += __shfl_xor_sync(kAllLanes, total[i], 2);
        const float inverse = 1.0F / total[i];
        bool finite = true;
        for (int n = 0; n < kWidth / 8; ++n) {
            for (int k = 4 * n + 2 * i; k < 4 * n + 2 * i + 2; ++k) {
                sums[k] *= inverse;
                finite = finite && fabsf(sums[k]) <= FLT_MAX;
            }
        }
        // A value that is not finite times a share of 0 is not 0, though it may be no neighbour's: those rows anew.
        spoilt[i] = __ballot_sync(kAllLanes, there[i] && !finite);
        if (there[i] && (spoilt[i] >> (lane & ~3) & 15U) == 0) {
            for (int n = 0; n < kWidth / 8; ++n) {
                const int at = Products::dimension(n, part);
                if (at < a.width) {
                    const float pair[2] = {sums[4 * n + 2 * i], sums[4 * n + 2 * i + 1]};
                    storeFloats(static_cast<T*>(a.params.output) + origin + int64_t{row[i]} * kWord + at, pair);
                }
            }
        }
    }
#pragma unroll 1
    for (int own = 0; own < kPlaces && (spoilt[0] | spoilt[1]) != 0; ++own) {
        if (((own < 8 ? spoilt[0] : spoilt[1]) >> own % 8 * 4 & 15U) == 0) {
            continue;
        }
        const int64_t at = origin + int64_t{__shfl_sync(kAllLanes, own < 8 ? row[0] : row[1], own % 8 * 4)} * kWord;
        attendAlone<T>(a, at / a.width);
    }
}

// Chooses the tile whose blocks read and compute least, and says how many blocks there are; 0 where none will do.
int64_t chooseTile(Arguments& a, int64_t rows) {
    double least = 0.0;
    int64_t chosen = 0;
    for (int x = 0; x <= kLogTile; ++x) {
        for (int y = 0; x + y <= kLogTile; ++y) {
            const int logs[3] = {x, y, kLogTile - x - y};
            Axis axes[3];
            int64_t blocks = rows;
            double boxed = 1.0;
            double range = 1.0;  // of a warp's keys in the box
            int shift = 0;
            int left = 4;  // logarithm of the warp's places along this axis and those before
            uint32_t guards = 0;
            for (int i = 2; i >= 0; --i) {
                Axis& axis = axes[i] = a.axes[i];
                const int dilation = static_cast<int>(axis.dilation.divisor);
                const int places = (axis.length - 1) / dilation + 1;
                const int reach = axis.kernel + static_cast<int>(axis.stride.divisor) - 2;
                const int tiles = ((places - 1) >> logs[i]) + 1;
                const int side = static_cast<int>(std::min<int64_t>(places, int64_t{reach} + (1 << logs[i])));
                const int own = std::min(left, logs[i]);
                left -= own;
                range += boxed * (std::min(places, reach + (1 << own)) - 1);
                boxed *= side;
                axis.log = logs[i];
                axis.tiles = FastDivider(tiles);
                axis.shift = shift;
                for (shift += 2; side >> (shift - axis.shift - 1) != 0;) {
                    ++shift;
                }
                guards |= shift <= 32 ? 1U << (shift - 1) : 0;
                blocks *= int64_t{tiles} * dilation;
            }
            const double cost = static_cast<double>(blocks) * (boxed + 4.0 * range);
            if (shift <= 32 && boxed < 1 << 20 && blocks <= INT32_MAX && (chosen == 0 || cost < least)) {
                least = cost;
                chosen = blocks;
                std::copy(axes, axes + 3, a.axes);
                a.guards = guards;
            }
        }
    }
    return chosen;
}

}  // namespace

cudaError_t neighbourhoodAttention(const NeighbourhoodAttentionParams& params, const NeighbourhoodAttentionShape& shape,
                                   cudaStream_t stream) {
    int64_t elements = 0;
    const NeighbourhoodAxis(&given)[3] = shape.axes;
    if (!elementCount({shape.batch, given[0].length, given[1].length, given[2].length, shape.heads, shape.width},
                      elements)) {
        return cudaErrorInvalidValue;
    }
    if (elements == 0) {
        return cudaSuccess;
    }
    if (params.q == nullptr || params.k == nullptr || params.v == nullptr || params.output == nullptr ||
        shape.heads > INT32_MAX || shape.width > INT32_MAX) {
        return cudaErrorInvalidValue;
    }
    Arguments a{};
    a.params = params;
    a.heads = FastDivider(shape.heads);
    a.width = static_cast<int>(shape.width);
    a.scale = params.scale * kLog2E;
    int64_t pitch = shape.heads * shape.width;
    for (int i = 2; i >= 0; --i) {
        const NeighbourhoodAxis& axis = given[i];
        if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.stride > axis.kernel ||
            axis.length > INT32_MAX / 4 || axis.kernel > axis.length / axis.dilation) {
            return cudaErrorInvalidValue;
        }
        a.axes[i] = {static_cast<int>(axis.length), static_cast<int>(axis.kernel), axis.causal,
                     FastDivider(axis.stride),      FastDivider(axis.dilation),    pitch * axis.dilation};
        pitch *= axis.length;
    }
    const int64_t word = 16 / static_cast<int64_t>(bytesOf(params.type));
    const bool words = shape.width % word == 0 && shape.width <= kWidest && pitch / word <= INT32_MAX &&
                       params.scale > 0.0F && isAligned(params.q, 16) && isAligned(params.k, 16) &&
                       isAligned(params.v, 16) && isAligned(params.output, 16);
    for (Axis& axis : a.axes) {
        axis.words = static_cast<int>(axis.pitch / word);
    }
    const int64_t blocks = words ? chooseTile(a, shape.batch * shape.heads) : 0;
    return withFloatType(params.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (blocks == 0) {
            const int64_t rows = elements / shape.width;
            return launch(aloneKernel<T>, gridBlocks(ceilDivide(rows, kWarps)), kThreads, 0, stream, a, rows);
        }
        const auto kernel = a.width <= 32   ? tileKernel<T, 32>
                            : a.width <= 64 ? tileKernel<T, 64>
                                            : tileKernel<T, kWidest>;
        // Where products are asynchronous, queries are in shared memory.
        int bytes = 0;
        if (sizeof(T) == 2 && a.width > 32) {
            cudaFuncAttributes attributes{};
            cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
            if (error == cudaSuccess && attributes.binaryVersion == 90) {
                bytes = 1024 + (a.width <= 64 ? 64 : kWidest) * 2 * (1 << kLogTile);
                error = allowSharedBytes(kernel, bytes);
            }
            if (error != cudaSuccess) {
                return error;
            }
        }
        return launch(kernel, gridBlocks(blocks), kThreads, bytes, stream, a);
    });
}

}  // namespace trtsmith
