// Samples at offsets from reference points, weighted by the softmax of logits: a source, as
// multiscale_deformable_attention_source.cuh says what one is.
#pragma once

#include <cstdint>

#include "dispatch.cuh"
#include "multiscale_deformable_attention_cell.cuh"
#include "multiscale_deformable_attention_place.cuh"
#include "multiscale_deformable_attention_softmax.cuh"
#include "multiscale_deformable_attention_source.cuh"
#include "multiscale_deformable_attention_words.cuh"

namespace trtsmith {

// A position is reference * size + shift, in pixels. For a point the offset is in pixels, for a box in parts of its half
// width or height, and `boxShare` of it.
__device__ inline float pointShift(float offset) { return offset - 0.5F; }
__device__ inline float boxShift(float offset, float extent, float size, float boxShare) {
    return fmaf(offset, extent * size * boxShare, -0.5F);
}

// Rounded down, for the floor. `shift` itself is rounded, so that the fraction may miss [0, 1) by as much.
__device__ inline float shiftedBelow(float reference, float size, float shift) {
    return __fmaf_rd(reference, size, shift);
}

// axisPosition for a reference point and a shift. The cell goes off the product before that is rounded, and the shift is
// small: on a level of 100 pixels, with offsets of 2, the position is wrong by 6e-8 of a pixel (root mean square); as
// reference * size + shift in one rounding, by 1.5e-6.
__device__ inline AxisPosition shiftedPosition(float reference, float shift, int32_t size) {
    const float scale = static_cast<float>(size);
    const float floor = floorf(shiftedBelow(reference, scale, shift));
    const float fraction = fmaf(reference, scale, -floor) + shift;
    // Comparisons that a NaN fails, so that it stays.
    return {__float2int_rd(floor), fraction < 0.0F ? 0.0F : (fraction > 1.0F ? 1.0F : fraction)};
}

// axisHats for the same.
__device__ inline AxisHats shiftedHats(float reference, float shift, float size) {
    const float floor = __fadd_rd(shiftedBelow(reference, size, shift), kRounder);
    const float cell = fminf(fmaxf(floor, kRounder), size + (kRounder - 2.0F));
    const float distance = fmaf(reference, size, kRounder - cell) + shift;
    return {cell, __saturatef(1.0F - fabsf(distance)), __saturatef(1.0F - fabsf(distance - 1.0F))};
}

struct ReferenceArguments {
    const float* referencePoints;
    int64_t referenceBatch;   // numbers from one batch to the next; 0 where all have the same points
    int64_t referenceQuery;   // numbers from one query to the next
    int64_t sharedBy;         // entries of the batch that have the same offsets and logits
    int64_t groups;           // reference points of a level
    int64_t referenceLevels;  // 1 where all levels have the same points
    int64_t coordinates;      // of a point: 2, or 4 for a box
    uint32_t referenceStep;   // bytes from one query to the next, for the team kernel
    float boxShare;           // 0.5 / points of a level
};

// As a lane of a team has it. The extent of a box is loaded when it is wanted: held across the gathers, it would take
// registers from what has no boxes, too.
template <typename T>
struct OffsetSample : RawSample<T> {
    float2 reference;
};

template <typename T>
struct OffsetSamples {
    using Element = T;
    using Raw = OffsetSample<T>;
    using Arguments = ReferenceArguments;
    using SiteWeights = SiteSoftmax<T>;
    template <int kWords, bool kSingle>
    using TeamWeights = TeamSoftmax<T, kWords, kSingle>;

    template <typename A>
    static bool isAlignedToPairs(const A& a) {
        return isAligned(a.referencePoints, 2 * sizeof(float));
    }

    // Entries of the batch share offsets and logits, so many in a row.
    template <typename A>
    static __device__ int sampleBatch(int batch, const A& a) {
        return batch / static_cast<int>(a.sharedBy);
    }

    template <typename A>
    static __device__ uint32_t referenceOf(int sample, const A& a) {
        const int level = sample / a.points;
        const int group = (sample - level * a.points) % static_cast<int>(a.groups);
        const int point = (a.referenceLevels == 1 ? 0 : level * static_cast<int>(a.groups)) + group;
        return static_cast<uint32_t>(point) * static_cast<uint32_t>(a.coordinates * sizeof(float));
    }

    // The first is worked out before the table is there. Lanes behind the last sample have that of the first.
    template <bool kSingle>
    struct References {
        uint32_t own;

        template <typename A>
        __device__ References(int lane, int count, const A& a) : own(referenceOf(lane < count ? lane : 0, a)) {}

        static __device__ uint32_t* table() {
            __shared__ uint32_t bytes[kMaxTeamSamples + kTeam];
            return bytes;
        }

        template <typename A>
        __device__ void prepare(int sample, int count, const A& a) {
            if constexpr (!kSingle) {
                table()[sample] = referenceOf(sample < count ? sample : 0, a);
            }
        }
        __device__ uint32_t first() const { return own; }
        __device__ uint32_t of(int sample) const {
            if constexpr (kSingle) {
                return own;
            } else {
                return table()[sample];
            }
        }
    };

    struct Range {
        const char* references = nullptr;  // of query 0

        template <typename A>
        __device__ void enterBatch(int batch, const A& a) {
            references = reinterpret_cast<const char*>(a.referencePoints + batch * a.referenceBatch);
        }

        template <typename A>
        __device__ Raw complete(const RawSample<T>& pair, int query, uint32_t reference, bool valid, const A& a) const {
            Raw raw{pair, {0.0F, 0.0F}};
            if (valid) {
                raw.reference = point(query, reference, a);
            }
            return raw;
        }

        template <typename A>
        __device__ float2 point(int query, uint32_t reference, const A& a) const {
            return __ldg(reinterpret_cast<const float2*>(
                advanced(references, static_cast<uint32_t>(query), a.referenceStep) + reference));
        }

        template <typename A>
        __device__ float2 shift(const float2& offset, int query, uint32_t reference, bool valid, float width,
                                float height, const A& a) const {
            if (a.coordinates == 2) {
                return make_float2(pointShift(offset.x), pointShift(offset.y));
            }
            const float2 extent = valid ? point(query, reference + sizeof(float2), a) : make_float2(0.0F, 0.0F);
            return make_float2(boxShift(offset.x, extent.x, width, a.boxShare),
                               boxShift(offset.y, extent.y, height, a.boxShare));
        }

        template <typename A>
        __device__ SampleHats hats(const float2& offset, const Raw& raw, int query, uint32_t reference, bool valid,
                                   const TeamLevel& level, const A& a) const {
            const float2 away = shift(offset, query, reference, valid, level.width, level.height, a);
            return {shiftedHats(raw.reference.x, away.x, level.width),
                    shiftedHats(raw.reference.y, away.y, level.height)};
        }

        template <typename A>
        __device__ SamplePosition position(const float2& offset, const Raw& raw, int query, uint32_t reference,
                                           const LevelBounds& level, const A& a) const {
            const float2 away = shift(offset, query, reference, true, static_cast<float>(level.width),
                                      static_cast<float>(level.height), a);
            return {shiftedPosition(raw.reference.x, away.x, level.width),
                    shiftedPosition(raw.reference.y, away.y, level.height)};
        }
    };

    struct Cursor {
        const T* logits;
        const T* offsets;
        const float* query;  // its reference points
        const float* level;
        const float* point;
        int64_t group = 0;
        SiteWeights softmax;

        template <typename A>
        __device__ Cursor(const A& a, int64_t site, int64_t batchQuery, int64_t batch)
            : logits(a.weights + sampleSite(a, site, batch) * a.shape.levels * a.shape.points),
              offsets(a.positions + sampleSite(a, site, batch) * a.shape.levels * a.shape.points * 2),
              query(a.referencePoints + batch * a.referenceBatch +
                    (batchQuery - batch * a.shape.queries) * a.referenceQuery),
              level(query),
              point(query),
              softmax(logits, a.shape.levels * a.shape.points) {}

        template <typename A>
        static __device__ int64_t sampleSite(const A& a, int64_t site, int64_t batch) {
            return site - (batch - batch / a.sharedBy) * a.shape.queries * a.shape.heads;
        }

        template <typename A>
        __device__ void enterLevel(int64_t index, const A& a) {
            level = query + (a.referenceLevels == 1 ? 0 : index * a.groups * a.coordinates);
            point = level;
            group = 0;
        }

        template <typename A>
        __device__ SamplePosition position(int32_t height, int32_t width, const A& a) const {
            float x = pointShift(loadFloat(offsets));
            float y = pointShift(loadFloat(offsets + 1));
            if (a.coordinates != 2) {
                x = boxShift(loadFloat(offsets), __ldg(point + 2), static_cast<float>(width), a.boxShare);
                y = boxShift(loadFloat(offsets + 1), __ldg(point + 3), static_cast<float>(height), a.boxShare);
            }
            return {shiftedPosition(__ldg(point), x, width), shiftedPosition(__ldg(point + 1), y, height)};
        }

        __device__ float weight() const { return softmax.of(__ldg(logits)); }

        template <typename A>
        __device__ void advance(const A& a) {
            offsets += 2;
            logits += 1;
            point += a.coordinates;
            if (++group == a.groups) {
                point = level;
                group = 0;
            }
        }
    };
};

}  // namespace trtsmith
