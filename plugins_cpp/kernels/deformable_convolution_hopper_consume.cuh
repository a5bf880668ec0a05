// The consumers of the Hopper kernel of the deformable convolution: they multiply and store.
#pragma once

#include "convert.cuh"
#include "deformable_convolution_hopper_layout.cuh"

namespace trtsmith {
namespace tiled {

// The sums of one warp: 16 pixels x kColumns output channels, in each lane two pixels.
template <typename T, int kOut, int kPixels>
__device__ inline void storeSums(
    const Arguments<T>& a, const Shared<T, kOut, kPixels>& shared, const Tile& tile, int outBase, int pixelBase,
    int lane, int32_t exponent,
    const float (&sums)[Pipeline<T, kOut, kPixels>::kProducts][Pipeline<T, kOut, kPixels>::kSums]) {
    using Layout = Pipeline<T, kOut, kPixels>;
    const int64_t* const places = shared.places() + pixelBase;
    const int row = lane / 4;
    bool finite = true;
#pragma unroll
    for (int j = 0; j < Layout::kColumns / 8; ++j) {
        float values[2][2];  // pixel row or row + 8, output channel
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int32_t inGroup = tile.outBegin + outBase + 8 * j + lane % 4 * 2 + i;
            const int64_t out = static_cast<int64_t>(tile.group) * a.groupOut + min(inGroup, a.groupOut - 1);
            const float bias = a.bias == nullptr ? 0.0F : loadFloat(a.bias + out);
            float scale[2] = {1.0F, 1.0F};
            if constexpr (Layout::kSplit) {
                const int32_t both = -exponent - __ldg(a.rowExponents + out);  // may be too large for one fp32 factor
                scale[0] = powerOfTwo(both / 2);
                scale[1] = powerOfTwo(both - both / 2);
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float value = sums[4 * j / Layout::kSums][4 * j % Layout::kSums + 2 * half + i];
                if constexpr (Layout::kSplit) {
                    value = value * scale[0] * scale[1];
                    finite = finite && (inGroup >= a.groupOut || fabsf(value) <= 3.4028234e38F);
                }
                values[half][i] = value + bias;
            }
        }
        const int32_t first = tile.outBegin + outBase + 8 * j + lane % 4 * 2;
        if (sizeof(T) == 2 && a.vectorStores) {
            // Two lanes of neighbouring pixels each take one of their two output channels, for both pixels.
            const int odd = row % 2;
            const int32_t inGroup = first + odd;
            T* const plane = a.output + (static_cast<int64_t>(tile.group) * a.groupOut + inGroup) * a.outPlane;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float other = __shfl_xor_sync(0xffffffffU, values[half][1 - odd], 4);
                const float pair[2] = {odd != 0 ? other : values[half][0], odd != 0 ? values[half][1] : other};
                const int64_t place = places[row - odd + half * 8];
                if (place >= 0 && inGroup < a.groupOut) {
                    storeFloats<2>(plane + place, pair);
                }
            }
        } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                T* const plane = a.output + (static_cast<int64_t>(tile.group) * a.groupOut + first + i) * a.outPlane;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t place = places[row + half * 8];
                    if (place >= 0 && first + i < a.groupOut) {
                        plane[place] = fromFloat<T>(values[half][i]);
                    }
                }
            }
        }
    }
    if (Layout::kSplit && !finite) {
        a.header->inexact = 1U;
    }
}

template <int kProducts, int kSums>
__device__ inline void pinSums(float (&sums)[kProducts][kSums]) {
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
        hopper::pin(sums[product]);
    }
}

template <typename T, int kOut, int kPixels>
__device__ inline void consume(const Arguments<T>& a, const Shared<T, kOut, kPixels>& shared, int thread) {
    using Layout = Pipeline<T, kOut, kPixels>;
    using Operand = typename OperandOf<T>::type;
    constexpr int kProductBytes = 32;  // of a row that one product of 16 of depth takes
    const auto sync = [] { hopper::syncThreads(2, Layout::kConsumerThreads); };
    const int lane = thread % 32;
    const int warpgroup = thread / hopper::kWarpgroup;
    const int pixelBase = warpgroup % Layout::kPixelGroups * 64;
    const int outBase = warpgroup / Layout::kPixelGroups * Layout::kColumns;
    const auto release = [&](int stage) {
        if (lane == 0) {
            hopper::arrive(shared.empty(stage));
        }
    };
    int32_t exponent = 0;
    if constexpr (Layout::kSplit) {
        exponent = scaleExponent(a.header->largest);
    }

    // fp32: two warpgroups take turns, so that one adds up while the tensor cores work for the other.
    constexpr bool kTurns = Layout::kSplit && Layout::kConsumers == 2;
    const auto takeTurn = [&] {
        if (kTurns) {
            hopper::syncThreads(3 + warpgroup, Layout::kConsumerThreads);
        }
    };
    const auto passTurn = [&] {
        if (kTurns) {
            hopper::arriveThreads(4 - warpgroup, Layout::kConsumerThreads);
        }
    };
    if (warpgroup == 1) {
        passTurn();
    }
    Place<Layout::kStages> place;
    for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
        const Tile tile = tileOf<kOut, kPixels>(a, index);
        sync();  // the tile before is stored
        if (thread < kPixels) {
            const Pixel pixel = pixelOf(a, tile.pixelBegin + thread);
            shared.places()[thread] = pixel.image < 0 ? -1 : pixel.image * a.outChannels * a.outPlane + pixel.inPlane;
        }
        sync();

        float sums[Layout::kProducts][Layout::kSums];
        if constexpr (Layout::kSplit) {
#pragma unroll
            for (int i = 0; i < Layout::kSums; ++i) {
                sums[0][i] = 0.0F;
            }
        }
        int previous = -1;
        for (int32_t step = 0; step < a.order.steps; ++step) {
            hopper::wait(shared.full(place.stage), place.parity);
            hopper::fenceAsync();
            const uint64_t samples = hopper::describeRows(shared.stageAddress(place.stage) + pixelBase * kRowBytes);
            const uint64_t weights =
                hopper::describeRows(shared.stageAddress(place.stage) + Layout::kWeights + outBase * kRowBytes);
            const auto along = [](int product) { return static_cast<uint64_t>(product * kProductBytes / 16); };
            if constexpr (Layout::kSplit) {
                // Products 0 and 1 of a row are its high halves, 2 and 3 the low ones. Tensor cores cut off where fp32
                // addition rounds: a long sum in them would drift by 1e-5. So they add up one step only, the small
                // products first, and ordinary additions the rest.
                static_assert(Layout::kProducts == 1, "another one has no registers");
                float part[Layout::kSums];
                takeTurn();
                hopper::pin(part);
                hopper::fenceProducts();
#pragma unroll
                for (int i = 0; i < 6; ++i) {
                    const int sampleProduct = i < 2 ? 2 + i : i % 2;
                    const int weightProduct = i >= 2 && i < 4 ? i : i % 2;
                    hopper::multiplyAsync(part, samples + along(sampleProduct), weights + along(weightProduct), i > 0,
                                          Operand{});
                }
                hopper::commitProducts();
                passTurn();
                hopper::waitProducts<0>();
                hopper::pin(part);
                release(place.stage);
#pragma unroll
                for (int i = 0; i < Layout::kSums; ++i) {
                    sums[0][i] += part[i];
                }
            } else {
                pinSums(sums);
                hopper::fenceProducts();
#pragma unroll
                for (int depth = 0; depth < kRowBytes / kProductBytes; ++depth) {
#pragma unroll
                    for (int product = 0; product < Layout::kProducts; ++product) {
                        constexpr uint64_t kRows = uint64_t{2 * Layout::kSums} * kRowBytes / 16;
                        hopper::multiplyAsync(sums[product], samples + along(depth),
                                              weights + product * kRows + along(depth), step > 0 || depth > 0,
                                              Operand{});
                    }
                }
                hopper::commitProducts();
                // The step before is done when only this one is under way.
                hopper::waitProducts<1>();
                if (previous >= 0) {
                    release(previous);
                }
                previous = place.stage;
            }
            place.advance();
        }
        if constexpr (!Layout::kSplit) {
            hopper::waitProducts<0>();
            pinSums(sums);
            if (previous >= 0) {
                release(previous);
            }
        }
        storeSums<T, kOut, kPixels>(a, shared, tile, outBase, pixelBase + thread % hopper::kWarpgroup / 32 * 16, lane,
                                    exponent, sums);
    }
}

}  // namespace tiled
}  // namespace trtsmith
