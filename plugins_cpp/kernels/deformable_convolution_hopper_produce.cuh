// The producers of the Hopper kernel of the deformable convolution: they locate and sample.
#pragma once

#include "deformable_convolution_hopper_layout.cuh"

namespace trtsmith {
namespace tiled {

// A producer's side of the ring.
template <typename T, int kOut, int kPixels>
struct Filling {
    using Layout = Pipeline<T, kOut, kPixels>;
    Place<Layout::kStages> place;
    const char* weights = nullptr;  // of the next step
    int64_t stepBytes;
    uint32_t weightBytes = 0;

    __device__ explicit Filling(const Arguments<T>& a) : stepBytes(static_cast<int64_t>(a.groupOut) * kRowBytes) {}

    __device__ void begin(const Arguments<T>& a, const Tile& tile) {
        weightBytes = static_cast<uint32_t>(min(kOut, a.groupOut - tile.outBegin)) * static_cast<uint32_t>(kRowBytes);
        weights = reinterpret_cast<const char*>(a.weight) +
                  (static_cast<int64_t>(tile.group) * a.order.steps * a.groupOut + tile.outBegin) * kRowBytes;
    }

    // Rows of the next stage, once it is empty; its weights are on their way.
    __device__ char* acquire(const Shared<T, kOut, kPixels>& shared, int thread) {
        hopper::wait(shared.empty(place.stage), place.parity ^ 1U);
        if (thread == 0) {
            hopper::arriveExpecting(shared.full(place.stage), weightBytes);
            hopper::copyBulk(shared.stageAddress(place.stage) + Layout::kWeights, weights, weightBytes,
                             shared.full(place.stage));
        }
        weights += stepBytes;
        return shared.samples(place.stage);
    }

    __device__ void commit(const Shared<T, kOut, kPixels>& shared, int thread) {
        __syncwarp();
        if (thread % 32 == 0) {
            hopper::arrive(shared.full(place.stage));
        }
        place.advance();
    }
};

// Where each offset group is one unit, no two samples share a position: every thread locates its own ones in registers,
// and no warp waits for another. Here the arithmetic of positions weighs as much as that of samples, so all that a tile
// or a step has in common is worked out once for it.
template <typename T, int kOut, int kPixels>
__device__ inline void produceApart(const Arguments<T>& a, const Shared<T, kOut, kPixels>& shared, int thread) {
    using Layout = Pipeline<T, kOut, kPixels>;
    constexpr int kPhasePixels = Layout::kProducerThreads / kStepUnits;
    constexpr int kPhases = kPixels / kPhasePixels;
    static_assert(kPhases % 2 == 0, "two sets of registers take turns");
    const int samplePixel = thread % 32 + thread / 256 * 32;
    const int unit = thread % 256 / 32;
    const int32_t taps = static_cast<int32_t>(a.order.taps.divisor);
    const int32_t plane = static_cast<int32_t>(a.outPlane);
    const auto sync = [] { hopper::syncThreads(1, Layout::kProducerThreads); };
    float scale = 1.0F;
    if constexpr (Layout::kSplit) {
        scale = powerOfTwo(scaleExponent(a.header->largest));
    }
    Filling<T, kOut, kPixels> filling(a);
    for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
        const Tile tile = tileOf<kOut, kPixels>(a, index);
        filling.begin(a, tile);
        sync();  // nobody reads those of the tile before any more
        for (int number = thread; number < kPixels; number += Layout::kProducerThreads) {
            // Past the last pixel it is that one again: its samples are not stored.
            const Pixel pixel = pixelOf(a, min(tile.pixelBegin + number, a.pixels - 1));
            const int64_t first = (pixel.image * a.offsetGroups + tile.group * a.groupUnits) * taps;
            shared.pixelPlaces()[number] = {first * 2 * plane + pixel.inPlane,
                                            first * plane + pixel.inPlane,
                                            pixel.originY,
                                            pixel.originX,
                                            a.firstPixel + pixel.image * a.imagePixels,
                                            0U};
        }
        sync();
        const PixelPlace* const pixels = shared.pixelPlaces() + samplePixel;

        // Two sets of each take turns: positions are read two phases before they are used, corners one phase.
        Location locations[2];
        float4 factors[2];
        Corners corners[2];
        const auto locate = [&](int32_t step, int phase) {
            const int32_t site = min((step + phase / kPhases) * kStepUnits + unit, a.order.sites - 1);
            const PixelPlace& pixel = pixels[phase % kPhases * kPhasePixels];
            const T* const offset = a.offset + (pixel.offset + int64_t{2 * site} * plane);
            Location& location = locations[phase % 2];
            location.dy = loadBits(offset);
            location.dx = loadBits(offset + plane);
            if (a.mask != nullptr) {
                location.modulation = loadBits(a.mask + (pixel.mask + int64_t{site} * plane));
            }
        };
        // Of the step that is loaded: this thread's site.
        int32_t loadedSite = unit;
        int32_t tap = unit;
        const char* channel =
            reinterpret_cast<const char*>(a.x) + static_cast<int64_t>(tile.group) * a.groupChunks * a.chunkBytes;
        int32_t tapY = 0;
        int32_t tapX = 0;
        const auto aim = [&] {
            while (tap >= taps) {
                tap -= taps;
                channel += loadedSite < a.order.sites ? a.chunkBytes : 0;
            }
            const int32_t row = a.kernelWidth.quotient(tap);
            tapY = row * a.dilationHeight;
            tapX = (tap - row * static_cast<int32_t>(a.kernelWidth.divisor)) * a.dilationWidth;
        };
        const auto load = [&](int phase) {
            const PixelPlace& pixel = pixels[phase % kPhases * kPhasePixels];
            const Location& location = locations[phase % 2];
            const bool exists = loadedSite < a.order.sites;  // else it pads the depth
            uint32_t cell;
            position(a, location, pixel.originY + tapY, pixel.originX + tapX, pixel.image, exists, scale,
                     &factors[phase % 2], &cell);
            beginSample(channel, channel + a.lineBytes, kUnitBytes, cell * kUnitBytes, corners[phase % 2]);
        };
        locate(0, 0);
        locate(0, 1);
        aim();
        load(0);
        locate(0, 2);
        for (int32_t step = 0; step < a.order.steps; ++step) {
            char* const rows = filling.acquire(shared, thread);
#pragma unroll
            for (int phase = 0; phase < kPhases; ++phase) {
                // Past the end both go on, over sites that do not exist.
                if (phase + 1 == kPhases) {
                    loadedSite += kStepUnits;
                    tap += kStepUnits;
                    aim();
                }
                load(phase + 1);
                locate(step, phase + 3);
                const int row = samplePixel + phase * kPhasePixels;
                finishSample<T>(corners[phase % 2], factors[phase % 2], unit, row & 7, rows + row * kRowBytes);
            }
            filling.commit(shared, thread);
        }
    }
}

// kWide: a chunk fills a step, so that each step is one site.
template <typename T, int kOut, int kPixels, bool kWide>
__device__ inline void produce(const Arguments<T>& a, const Shared<T, kOut, kPixels>& shared, int thread) {
    using Layout = Pipeline<T, kOut, kPixels>;
    constexpr int kThreads = Layout::kProducerThreads;
    constexpr int kPhasePixels = kThreads / kStepUnits;
    constexpr int kPhases = kPixels / kPhasePixels;
    constexpr int kSites = Layout::kSites;
    constexpr int kPasses = kWide ? 1 : kStepUnits / kSites;
    static_assert(kPhases > 1, "the corners of a phase are loaded while those of the one before are worked out");
    constexpr int kBatch = kWide ? kSites : 1;  // steps that are located together
    const auto sync = [] { hopper::syncThreads(1, kThreads); };

    // Neighbouring lanes take the units of one chunk, and then the pixels: they read neighbouring bytes of x.
    const int laneBits = kWide ? 3 : a.laneBits;
    const int samplePixel = (thread >> laneBits) % 32 + thread / 256 * 32;
    const int unit = (thread & ((1 << laneBits) - 1)) | (thread % 256 >> (laneBits + 5) << laneBits);
    const int slots = kWide ? 1 : a.order.slots;
    const uint32_t pixelBytes = kWide ? kStepUnits * kUnitBytes : a.pixelBytes;
    float4* const factors = shared.factors();
    uint32_t* const cells = reinterpret_cast<uint32_t*>(factors + a.order.tables * slots * kPixels);
    float scale = 1.0F;
    if constexpr (Layout::kSplit) {
        scale = powerOfTwo(scaleExponent(a.header->largest));
    }

    const auto firstSite = [&](int32_t step) { return kWide ? step : a.order.chunkUnits.quotient(step * kStepUnits); };
    Filling<T, kOut, kPixels> filling(a);
    for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
        const Tile tile = tileOf<kOut, kPixels>(a, index);
        filling.begin(a, tile);
        const int locatePixel = thread % kPixels;
        const Pixel pixel = pixelOf(a, tile.pixelBegin + locatePixel);
        Location locations[kPasses];
        int table = 0;        // of the step that is sampled
        int locateTable = 0;  // of the next batch to locate
        // The site of a batch that this thread locates in a pass, for its pixel, and the table's entry; or none.
        const auto siteOf = [&](int32_t batch, int pass) {
            return kWide ? batch * kBatch + thread / kPixels : firstSite(batch) + pass * kSites + thread / kPixels;
        };
        const auto mine = [&](int32_t batch, int pass) {
            return kWide ? siteOf(batch, pass) < a.order.locatedSteps : pass * kSites + thread / kPixels < slots;
        };
        const auto begin = [&](int32_t batch) {
#pragma unroll
            for (int pass = 0; pass < kPasses; ++pass) {
                if (mine(batch, pass)) {
                    locations[pass] = beginLocate(a, tile, siteOf(batch, pass), pixel);
                }
            }
        };
        const auto finish = [&](int32_t batch) {
#pragma unroll
            for (int pass = 0; pass < kPasses; ++pass) {
                if (mine(batch, pass)) {
                    const int entry = (locateTable * slots + pass * kSites + thread / kPixels) * kPixels + locatePixel;
                    finishLocate(a, locations[pass], siteOf(batch, pass), pixel, scale, factors + entry, cells + entry);
                }
            }
            locateTable += kBatch;
            locateTable = locateTable >= a.order.tables ? 0 : locateTable;
        };
        // Where this thread samples in a step: its unit's channels, the line below, and its entry in the table.
        const char* channel = nullptr;
        const char* lower = nullptr;
        int entry = 0;
        const auto aim = [&](int32_t step) {
            const int32_t number = step * kStepUnits + unit;
            const int32_t site = kWide ? step : a.order.chunkUnits.quotient(number);
            const int32_t chunk =
                min(a.order.taps.quotient(site), a.groupChunks - 1);  // padding of the depth reads zeros
            const int32_t inChunk = kWide ? unit : number - site * static_cast<int32_t>(a.order.chunkUnits.divisor);
            channel = reinterpret_cast<const char*>(a.x) + (tile.group * a.groupChunks + chunk) * a.chunkBytes +
                      inChunk * kUnitBytes;
            lower = channel + a.lineBytes;
            entry = (table * slots + site - firstSite(step)) * kPixels + samplePixel;
        };

        begin(0);
        sync();  // nobody samples the tile before any more
        finish(0);
        begin(1);
        sync();
        aim(0);
        Corners corners[kPhases];  // while one is worked out, the loads of the next are under way
        beginSample(channel, lower, pixelBytes, cells[entry], corners[0]);
        const auto sampleStep = [&](int32_t step) {
            const int32_t batch = step / kBatch;
            // Past the end it goes on, over sites that do not exist.
            const bool locates = (batch + 1) * kBatch < a.order.locatedSteps;
            if (locates && step % kBatch == 0) {
                finish(batch + 1);
                begin(batch + 2);
            }
            char* const rows = filling.acquire(shared, thread);
            const float4* const stepFactors = factors + entry;
#pragma unroll
            for (int phase = 0; phase < kPhases; ++phase) {
                const float4 factor = stepFactors[phase * kPhasePixels];
                Corners& next = corners[(phase + 1) % kPhases];
                if (phase + 1 < kPhases) {
                    beginSample(channel, lower, pixelBytes, cells[entry + (phase + 1) * kPhasePixels], next);
                } else if (step + 1 < a.order.steps) {
                    if (locates && (step + 1) % kBatch == 0) {
                        sync();  // the next batch is located
                    }
                    table = table + 1 == a.order.tables ? 0 : table + 1;
                    aim(step + 1);
                    beginSample(channel, lower, pixelBytes, cells[entry], next);
                }
                const int row = samplePixel + phase * kPhasePixels;
                finishSample<T>(corners[phase], factor, unit, row & 7, rows + row * kRowBytes);
            }
            filling.commit(shared, thread);
        };
        for (int32_t step = 0; step < a.order.steps; ++step) {
            sampleStep(step);
        }
    }
}

}  // namespace tiled
}  // namespace trtsmith
