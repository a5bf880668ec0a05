// Averages of regions that are not turned, from maps whose channels are last. A sample's weight is a product of one of its row and
// one of its column, so a bin is a sum over the rows and columns of pixels that its samples touch, each of which is read once:
// samples less than two pixels apart share some.
#pragma once

#include <cstdint>

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/regions/region_channels_last.cuh"
#include "kernels/regions/region_direct.cuh"

namespace trtsmith {

constexpr int32_t kUprightSides = 64;    // the most bins along both axes together
constexpr int64_t kUprightWords = 1568;  // of 16 bytes, the results of a block: 32 words of 7 x 7 bins
constexpr int32_t kUprightTaps = 512;    // of all bins, along both axes
constexpr int32_t kUprightColumns = 4;   // that are read at a time, of kUprightRows rows
constexpr int32_t kUprightRows = 2;

// A row or a column of pixels of a bin: where it begins, in words of 16 bytes, and the sum of its samples' weights.
struct RegionTap {
    int32_t offset;
    float weight;
};

inline bool mayPoolUpright(const RegionArguments& a) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const int64_t sides = a.shape.outputHeight + a.shape.outputWidth;
    bool fits = mayBeSeparable(a.params) && sides <= kUprightSides && a.bins <= kUprightWords &&
                a.shape.regions <= kMost / a.shape.channels && isAligned(a.params.output, ChannelTile<4>::kLoad);
    for (int32_t i = 0; i < a.params.levelCount; ++i) {
        const RegionLevel& level = a.params.levels[i];
        fits = fits && level.height * level.width <= kMost / a.shape.channels;
    }
    return fits;
}

// The taps of a bin along an axis, at most twice `most`, which is the number of its samples there; returns how many.
__device__ inline int32_t fillTaps(const RegionFrame& frame, bool isRow, int32_t bin, int32_t step, RegionTap* taps) {
    const double corner = (isRow ? frame.startY : frame.startX) + bin * (isRow ? frame.binY : frame.binX);
    const double apart = isRow ? frame.stepY : frame.stepX;
    const double grid = isRow ? frame.gridY : frame.gridX;
    const double origin = isRow ? frame.originY : frame.originX;
    const int32_t most = isRow ? frame.mostY : frame.mostX;
    const double first =
        firstSample(isRow ? frame.lowY : frame.lowX, isRow ? frame.highY : frame.highX, corner, apart, grid, most);
    int32_t count = 0;
    for (int32_t sample = 0; sample < most && first + sample < grid; ++sample) {
        const RegionPlace place =
            regionPlace(origin + (corner + (first + sample + 0.5) * apart), isRow ? frame.height : frame.width);
        for (int32_t side = 0; side < (place.low < 0 ? 0 : 2); ++side) {
            const int32_t offset = (place.low + (place.next ? side : 0)) * step;
            const float weight = side == 0 ? 1.0F - place.upper : place.upper;
            // It is one of the sample before, if any. A weight of 0 stays alone: an infinity times it is NaN.
            int32_t at = count;
            for (int32_t back = 1; back <= 2 && back <= count; ++back) {
                const RegionTap& tap = taps[count - back];
                at = tap.offset == offset && tap.weight != 0.0F && weight != 0.0F ? count - back : at;
            }
            taps[at] = {offset, (at < count ? taps[at].weight : 0.0F) + weight};
            count += at == count ? 1 : 0;
        }
    }
    return count;
}

// The sums of a bin from its taps. map: the thread's word of the first pixel.
template <typename T, int kVector>
__device__ inline void addTaps(const uint4* map, const RegionTap* rows, int32_t rowCount, const RegionTap* columns,
                               int32_t columnCount, float (&sums)[kVector]) {
    for (int32_t column = 0; column < columnCount; column += kUprightColumns) {
        const RegionTap* const some = columns + column;
        const int32_t left = columnCount - column;
        for (int32_t row = 0; row < rowCount; row += kUprightRows) {
            uint4 words[kUprightRows][kUprightColumns];
#pragma unroll
            for (int r = 0; r < kUprightRows; ++r) {
                const uint4* source = map + rows[row + r].offset;
#pragma unroll
                for (int c = 0; c < kUprightColumns; ++c) {
                    words[r][c] = uint4{};
                    if (c < left && row + r < rowCount) {
                        words[r][c] = __ldg(source + some[c].offset);
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < kUprightRows; ++r) {
                if (r > 0 && row + r >= rowCount) {
                    break;
                }
                const float rowWeight = rows[row + r].weight;
#pragma unroll
                for (int c = 0; c < kUprightColumns; ++c) {
                    if (c < 2 || c < left) {
                        const float weight = c < left ? rowWeight * some[c].weight : 0.0F;
                        T elements[kVector];
                        memcpy(static_cast<void*>(elements), &words[r][c], sizeof words[r][c]);
#pragma unroll
                        for (int k = 0; k < kVector; ++k) {
                            sums[k] = fmaf(weight, toFloat(elements[k]), sums[k]);
                        }
                    }
                }
            }
        }
    }
}

// The same of a region with too many samples for that, sample by sample. A function of its own, for its registers.
template <typename T, int kVector>
__device__ __noinline__ void addSamples(const RegionFrame& frame, int64_t row, int64_t column, const T* map,
                                        int64_t channels, float (&sums)[kVector]) {
    const int64_t samples = int64_t{frame.mostY} * frame.mostX;
    for (int64_t sample = 0; sample < samples; ++sample) {
        addRegionWord<RegionPooling::kAverage>(regionSample(frame, row, column, sample, 0.0, 0.0), map, channels,
                                               frame.width, sums);
    }
}

// A block has a region and a slice of its channels, whose results lie side by side in the output. A team of threads has the
// channels of a bin.
template <typename T>
__global__ void __launch_bounds__(kRegionThreads, 4) regionUprightKernel(const __grid_constant__ RegionArguments a) {
    constexpr int kVector = ChannelTile<sizeof(T)>::kVector;
    constexpr int32_t kFrameWords = sizeof(RegionFrame) / sizeof(uint64_t);
    __shared__ RegionFrame frame;
    __shared__ RegionTap taps[kUprightTaps];
    __shared__ int32_t counts[kUprightSides];
    extern __shared__ uint4 results[];
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t height = static_cast<int32_t>(a.shape.outputHeight);
    const int32_t width = static_cast<int32_t>(a.shape.outputWidth);
    const int32_t bins = height * width;
    const int32_t pixelWords = static_cast<int32_t>(a.shape.channels) / kVector;
    const int32_t slice = static_cast<int32_t>(blockIdx.x) / static_cast<int32_t>(a.shape.regions);
    const int64_t region = static_cast<int32_t>(blockIdx.x) - slice * static_cast<int32_t>(a.shape.regions);
    const int32_t firstWord = slice * (a.sliceChannels / kVector);
    const int32_t words = least(pixelWords - firstWord, a.sliceChannels / kVector);
    waitForTurning();
    if (thread < kFrameWords) {
        reinterpret_cast<uint64_t*>(&frame)[thread] = reinterpret_cast<const uint64_t*>(a.frames + region)[thread];
    }
    __syncthreads();
    const bool fits = 2 * (int64_t{height} * frame.mostY + int64_t{width} * frame.mostX) <= kUprightTaps;
    const int32_t rowTaps = 2 * frame.mostY;
    const int32_t columnTaps = 2 * frame.mostX;
    if (thread < height + width && fits) {
        const bool isRow = thread < height;
        const int32_t bin = isRow ? thread : thread - height;
        RegionTap* const own = taps + (isRow ? bin * rowTaps : height * rowTaps + bin * columnTaps);
        counts[thread] =
            frame.empty ? 0 : fillTaps(frame, isRow, bin, isRow ? frame.width * pixelWords : pixelWords, own);
    }
    __syncthreads();
    const int32_t teams = kRegionThreads / words;
    const int32_t team = thread / words;
    const int32_t word = thread - team * words;
    const uint4* const map = static_cast<const uint4*>(frame.data) + firstWord + word +
                             frame.image * frame.height * frame.width * pixelWords;
    const float scale = frame.empty ? 0.0F : static_cast<float>(1.0 / (frame.gridY * frame.gridX));
    for (int32_t bin = team; bin < bins && team < teams; bin += teams) {
        const int32_t row = bin / width;
        const int32_t column = bin - row * width;
        float sums[kVector] = {};
        if (fits) {
            addTaps<T>(map, taps + row * rowTaps, counts[row], taps + height * rowTaps + column * columnTaps,
                       counts[height + column], sums);
        } else {
            // Sums that a function is given lie in memory; those of the other way need not.
            float own[kVector] = {};
            addSamples<T>(frame, row, column, reinterpret_cast<const T*>(map), a.shape.channels, own);
#pragma unroll
            for (int k = 0; k < kVector; ++k) {
                sums[k] = own[k];
            }
        }
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
            reinterpret_cast<T*>(results)[(word * kVector + k) * bins + bin] = fromFloat<T>(sums[k] * scale);
        }
    }
    __syncthreads();
    uint4* const target = static_cast<uint4*>(a.params.output) + (region * pixelWords + firstWord) * bins;
    for (int32_t i = thread; i < words * bins; i += kRegionThreads) {
        __stcs(target + i, results[i]);
    }
}

}  // namespace trtsmith
