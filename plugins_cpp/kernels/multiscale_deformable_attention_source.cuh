// Samples whose locations and weights are inputs. A source is what the kernels of multi-scale deformable attention ask for
// the samples; this is the plain one, and multiscale_deformable_attention_offsets.cuh has the other.
#pragma once

#include <cstdint>

#include "multiscale_deformable_attention_cell.cuh"
#include "multiscale_deformable_attention_place.cuh"
#include "multiscale_deformable_attention_words.cuh"

namespace trtsmith {

template <typename T>
struct GivenSamples {
    using Element = T;
    using Raw = RawSample<T>;  // what a lane of a team loads for a sample

    struct Arguments {};  // of the kernel, more than all sources have

    template <typename A>
    static bool isAlignedToPairs(const A&) {
        return true;
    }

    // Where the reference points of a query's samples are, in bytes from the query's first: a table for those of a team.
    template <bool kSingle>
    struct References {
        template <typename A>
        __device__ References(int, int, const A&) {}
        template <typename A>
        __device__ void prepare(int, int, const A&) {}
        __device__ uint32_t first() const { return 0; }
        __device__ uint32_t of(int) const { return 0; }
    };
    template <typename A>
    static __device__ uint32_t referenceOf(int, const A&) {
        return 0;
    }

    // The entry of the batch whose samples those of this entry are.
    template <typename A>
    static __device__ int sampleBatch(int batch, const A&) {
        return batch;
    }

    // What a lane of a team has of a segment.
    struct Range {
        template <typename A>
        __device__ void enterBatch(int, const A&) {}

        template <typename A>
        __device__ Raw complete(const Raw& raw, int, uint32_t, bool, const A&) const {
            return raw;
        }

        template <typename A>
        __device__ SampleHats hats(const float2& location, const Raw&, int, uint32_t, bool, const TeamLevel& level,
                                   const A&) const {
            return {axisHats(location.x, level.width), axisHats(location.y, level.height)};
        }

        template <typename A>
        __device__ SamplePosition position(const float2& location, const Raw&, int, uint32_t, const LevelBounds& level,
                                           const A&) const {
            return {axisPosition(location.x, level.width), axisPosition(location.y, level.height)};
        }
    };

    // Weights of a team's samples, a round of kTeam after the other.
    template <int kWords, bool kSingle>
    struct TeamWeights {
        template <int kVector>
        __device__ float next(T weight, bool, float (&)[kVector]) {
            return toFloat(weight);
        }
        template <int kResults, int kVector>
        __device__ void finish(float (&)[kVector]) const {}
    };

    // Weights of one (batch, query, head), each for itself.
    struct SiteWeights {
        __device__ SiteWeights(const T*, int64_t) {}
        __device__ float of(T weight) const { return toFloat(weight); }
    };

    // The samples of one (batch, query, head) one after the other, for the general kernel.
    struct Cursor {
        const T* positions;
        const T* weights;

        template <typename A>
        __device__ Cursor(const A& a, int64_t site, int64_t, int64_t) {
            weights = a.weights + site * a.shape.levels * a.shape.points;
            positions = a.positions + site * a.shape.levels * a.shape.points * 2;
        }

        template <typename A>
        __device__ void enterLevel(int64_t, const A&) {}

        template <typename A>
        __device__ SamplePosition position(int32_t height, int32_t width, const A&) const {
            const float x = loadFloat(positions);
            const float y = loadFloat(positions + 1);
            return {axisPosition(x, width), axisPosition(y, height)};
        }

        __device__ float weight() const { return loadFloat(weights); }

        template <typename A>
        __device__ void advance(const A&) {
            positions += 2;
            weights += 1;
        }
    };
};

}  // namespace trtsmith
