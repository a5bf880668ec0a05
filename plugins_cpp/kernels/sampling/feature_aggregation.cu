#include "kernels/sampling/feature_aggregation.cuh"

#include "kernels/bilinear.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/fast_division.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr float kNearest = 1e-5F;  // a camera's least depth

// A block has one anchor, and a slice of its channels. Its threads look for the points that lie in an image, kThreads pairs of
// a point and a camera at a time, of which most do not; each thread then prepares one pair's sample of one level for all; and
// teams of `lanes` threads, kVector channels a lane, take one sample after the other: two at once were slower on an H100. The
// teams' sums are added in order.
struct Arguments {
    FeatureAggregationParams params;
    FeatureAggregationShape shape;
    int lanes;             // of a team, a power of two
    int pairs;             // of an anchor
    FastDivider bySlices;  // of channels
    FastDivider byAnchors;
    FastDivider byCameras;
    FastDivider byLevels;
    FastDivider byGroup;  // channels of a group
};

// The anchor of a block, and its image.
struct Anchor {
    int64_t number;
    int64_t image;
};

struct Sample {
    int32_t rows[4];  // of the features; -1: none
    float shares[4];
};

struct Shared {
    Sample samples[kThreads];
    int64_t weights[kThreads];  // where each sample's are, of all groups
    int32_t pairs[kThreads];
    float2 places[kThreads];
    int counts[kWarps];
};

__device__ inline int64_t indexAt(const Arguments& a, const void* indices, int64_t place) {
    return a.params.indexType == DType::kInt64 ? static_cast<const int64_t*>(indices)[place]
                                               : static_cast<const int32_t*>(indices)[place];
}

// Where a pair's point lies in the camera's image; outside where it is not ahead of the camera.
__device__ inline float2 placeOf(const Arguments& a, const Anchor& anchor, int pair) {
    const FeatureAggregationShape& s = a.shape;
    if (a.params.projections == nullptr) {
        const float* const place = a.params.places + (anchor.number * a.pairs + pair) * 2;
        return {__ldg(place), __ldg(place + 1)};
    }
    const int64_t point = a.byCameras.quotient(pair);
    const int64_t camera = (anchor.image - point) * s.cameras + pair;
    const float* const key = a.params.places + (anchor.number * s.points + point) * 3;
    const float* const row = a.params.projections + camera * 16;
    float moved[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        moved[i] = row[4 * i] * key[0] + row[4 * i + 1] * key[1] + row[4 * i + 2] * key[2] + row[4 * i + 3];
    }
    const float* const size = a.params.imageSizes + camera * 2;
    return moved[2] > kNearest ? float2{moved[0] / moved[2] / size[0], moved[1] / moved[2] / size[1]}
                               : float2{0.0F, 0.0F};
}

// Keeps those of the next kThreads pairs of an anchor that lie in an image, in order; gives their number.
__device__ inline int keepInside(const Arguments& a, const Anchor& anchor, int first, Shared& shared) {
    const bool exists = static_cast<int>(threadIdx.x) < a.pairs - first;
    const int pair = exists ? first + static_cast<int>(threadIdx.x) : 0;
    const float2 place = exists ? placeOf(a, anchor, pair) : float2{0.0F, 0.0F};
    const bool inside = place.x > 0.0F && place.x < 1.0F && place.y > 0.0F && place.y < 1.0F;  // false for NaN
    const unsigned int found = __ballot_sync(0xffffffffU, inside);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncthreads();  // the last pairs are done with
    if (lane == 0) {
        shared.counts[warp] = __popc(found);
    }
    __syncthreads();
    int before = __popc(found & ((1U << lane) - 1));
    int total = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
        before += i < warp ? shared.counts[i] : 0;
        total += shared.counts[i];
    }
    if (inside) {
        shared.pairs[before] = pair;
        shared.places[before] = place;
    }
    return total;
}

// The four pixels of sample `number` of the pairs that were kept; the levels of a pair follow each other.
__device__ inline void prepareSample(const Arguments& a, const Anchor& anchor, int number, Shared& shared) {
    const FeatureAggregationShape& s = a.shape;
    const int kept = a.byLevels.quotient(number);
    const int64_t level = number - kept * s.levels;
    const int pair = shared.pairs[kept];
    const int64_t map = (pair - a.byCameras.quotient(pair) * s.cameras) * s.levels + level;
    const int64_t height = indexAt(a, a.params.sizes, 2 * map);
    const int64_t width = indexAt(a, a.params.sizes, 2 * map + 1);
    const int64_t start = indexAt(a, a.params.starts, map);
    Sample sample{{-1, -1, -1, -1}, {0.0F, 0.0F, 0.0F, 0.0F}};
    if (height > 0 && width > 0 && height <= s.rows && width <= s.rows && start >= 0 && start <= s.rows &&
        height * width <= s.rows - start) {
        const float2 place = shared.places[kept];
        const BilinearCell cell =
            bilinearCell(place.y * static_cast<float>(height) - 0.5F, place.x * static_cast<float>(width) - 0.5F,
                         static_cast<int32_t>(height), static_cast<int32_t>(width));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((cell.valid >> i & 1U) != 0) {
                sample.rows[i] = static_cast<int32_t>(start + (cell.row + i / 2) * width + cell.column + i % 2);
                sample.shares[i] = cell.weights[i];
            }
        }
    }
    shared.samples[threadIdx.x] = sample;
    shared.weights[threadIdx.x] = ((anchor.number * a.pairs + pair) * s.levels + level) * s.groups;
}

// Adds every `teams`th of `count` samples, from number `team` on. features: of the image and the lane's channels; weights: of
// the group that all of these are of.
template <typename T, int kVector>
__device__ inline void addSamples(const Shared& shared, const T* features, const T* weights, int64_t channels, int team,
                                  int teams, int count, float (&sums)[kVector]) {
    for (int number = team; number < count; number += teams) {
        const Sample& sample = shared.samples[number];
        const float weight = loadFloat(weights + shared.weights[number]);
        float values[4][kVector];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            loadFloats(features + sample.rows[i] * channels, sample.rows[i] >= 0, values[i]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float share = weight * sample.shares[i];
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                sums[v] = fmaf(share, values[i][v], sums[v]);
            }
        }
    }
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) aggregateKernel(const __grid_constant__ Arguments a) {
    __shared__ Shared shared;
    __shared__ float partial[kThreads * kVector];
    const FeatureAggregationShape& s = a.shape;
    const int thread = static_cast<int>(threadIdx.x);
    const int team = thread / a.lanes;
    const int teams = kThreads / a.lanes;
    const int width = a.lanes * kVector;
    const int number = a.bySlices.quotient(static_cast<int>(blockIdx.x));
    const Anchor anchor{number, a.byAnchors.quotient(number)};
    const int64_t firstChannel =
        (static_cast<int>(blockIdx.x) - number * static_cast<int>(a.bySlices.divisor)) * int64_t{width};
    const int64_t channel = firstChannel + (thread - team * a.lanes) * kVector;
    const T* const features = static_cast<const T*>(a.params.features) + anchor.image * s.rows * s.channels + channel;
    const T* const weights = static_cast<const T*>(a.params.weights) + a.byGroup.quotient(static_cast<int>(channel));
    float sums[kVector] = {};
    for (int first = 0; first < a.pairs; first += kThreads) {
        const int samples = keepInside(a, anchor, first, shared) * static_cast<int>(s.levels);
        for (int done = 0; done < samples; done += kThreads) {
            const int count = samples - done < kThreads ? samples - done : kThreads;
            __syncthreads();
            if (thread < count) {
                prepareSample(a, anchor, done + thread, shared);
            }
            __syncthreads();
            if (channel < s.channels) {
                addSamples(shared, features, weights, s.channels, team, teams, count, sums);
            }
        }
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
        partial[thread * kVector + v] = sums[v];
    }
    __syncthreads();
    for (int i = thread; i < width && firstChannel + i < s.channels; i += kThreads) {
        float total = 0.0F;
        for (int k = 0; k < teams; ++k) {
            total += partial[k * width + i];
        }
        static_cast<T*>(a.params.output)[anchor.number * s.channels + firstChannel + i] = fromFloat<T>(total);
    }
}

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

template <typename T, int kVector>
cudaError_t aggregate(Arguments& a, cudaStream_t stream) {
    const int64_t needed = ceilDivide(a.shape.channels, kVector);
    a.lanes = 1;
    while (a.lanes < kThreads && a.lanes < needed) {
        a.lanes *= 2;
    }
    const int64_t slices = ceilDivide(needed, a.lanes);
    a.bySlices = FastDivider(slices);
    const int64_t blocks = a.shape.batch * a.shape.anchors * slices;
    return blocks > kMost ? cudaErrorInvalidValue
                          : launch(aggregateKernel<T, kVector>, gridBlocks(blocks), kThreads, 0, stream, a);
}

// Sizes that do not overflow, and no null pointer to a tensor that has elements.
bool isValid(const FeatureAggregationParams& p, const FeatureAggregationShape& s, int64_t& samples, int64_t& outputs) {
    int64_t features = 0;
    int64_t weights = 0;
    if (!elementCount({s.batch, s.rows, s.channels}, features) ||
        !elementCount({s.points, s.cameras, s.levels}, samples) ||
        !elementCount({s.batch, s.anchors, s.points, s.cameras, 2, s.levels, s.groups}, weights) ||
        !elementCount({s.batch, s.anchors, s.channels}, outputs) || s.rows > kMost || s.channels > kMost ||
        s.batch > kMost || s.anchors > kMost || samples > kMost || s.levels > kMostAggregationLevels) {
        return false;
    }
    if (outputs == 0) {
        return true;
    }
    const bool inputs = samples == 0 || (p.sizes != nullptr && p.starts != nullptr && p.weights != nullptr &&
                                         p.places != nullptr && (p.projections == nullptr || p.imageSizes != nullptr));
    return s.groups > 0 && s.channels % s.groups == 0 && inputs && (features == 0 || p.features != nullptr) &&
           p.output != nullptr;
}

}  // namespace

cudaError_t featureAggregation(const FeatureAggregationParams& params, const FeatureAggregationShape& shape,
                               cudaStream_t stream) {
    int64_t samples = 0;
    int64_t outputs = 0;
    if (!isValid(params, shape, samples, outputs)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        constexpr int kVector = 16 / static_cast<int>(sizeof(T));
        if (outputs == 0) {
            return cudaSuccess;
        }
        const int64_t group = shape.channels / shape.groups;
        Arguments a{params, shape, 0, 0, {}, FastDivider(shape.anchors), {}, {}, FastDivider(group)};
        if (samples > 0) {
            a.pairs = static_cast<int>(shape.points * shape.cameras);
            a.byCameras = FastDivider(shape.cameras);
            a.byLevels = FastDivider(shape.levels);
        }
        const bool wide = group % kVector == 0 && isAligned(params.features, 16);
        return wide ? aggregate<T, kVector>(a, stream) : aggregate<T, 1>(a, stream);
    });
}

}  // namespace trtsmith
