// Looks for the last of the best candidates, in one block, by the bits of keys from the first to the last.
#pragma once

#include <cstdint>

#include "kernels/enumerate.cuh"
#include "kernels/selection/detection_selection_state.cuh"

namespace trtsmith {
namespace detection_selection_detail {

constexpr int kThreads = 1024;
constexpr int kDigit = 11;  // bits
constexpr int kDigits = 1 << kDigit;

struct Search {
    int64_t sums[kThreads / 32];
    int64_t before;  // candidates before `digit`
    unsigned int digit;
};

// A key up to which, after `cursor`, there are at most `most` (1 or more) of the n keys that keyAt gives: as many as `most`
// where `exact`, else a fourth of it or more, but for `all`, where there are no more than `most`. All threads of a block of
// kThreads call it, and have the result. `histogram` has kDigits numbers, in shared memory.
template <typename KeyAt>
__device__ Key lastOfBest(const KeyAt& keyAt, int64_t n, Key cursor, int64_t most, bool exact, uint32_t* histogram,
                          Search& search, bool& all) {
    const int thread = static_cast<int>(threadIdx.x);
    all = false;
    Key base = 0;       // keys before it are taken
    int64_t taken = 0;  // how many
    int shift = 64;     // those of which the bits from here on are those of `base` are too many
    while (true) {
        const int next = shift > kDigit ? shift - kDigit : 0;
        const Key mask = (Key{1} << (shift - next)) - 1;
        for (int i = thread; i < kDigits; i += kThreads) {
            histogram[i] = 0;
        }
        __syncthreads();
        for (int64_t i = thread; i < n; i += kThreads) {
            const Key key = keyAt(i);
            if (key != kNone && key > cursor && (shift == 64 || key >> shift == base >> shift)) {
                atomicAdd(histogram + (key >> next & mask), 1U);
            }
        }
        __syncthreads();
        const int64_t first = histogram[2 * thread];
        const int64_t second = histogram[2 * thread + 1];
        int64_t total = 0;
        const int64_t before = taken + enumerate_detail::exclusiveSum<kThreads>(first + second, search.sums, total);
        if (shift == 64 && total <= most) {
            all = true;
            return kNone;
        }
        if (before <= most && before + first + second > most) {
            const bool isSecond = before + first <= most;
            search.digit = static_cast<unsigned int>(2 * thread + (isSecond ? 1 : 0));
            search.before = isSecond ? before + first : before;
        }
        __syncthreads();
        base |= static_cast<Key>(search.digit) << next;
        taken = search.before;
        shift = next;
        __syncthreads();
        if (shift == 0 || taken == most || (!exact && taken * 4 >= most)) {
            return base - 1;
        }
    }
}

}  // namespace detection_selection_detail
}  // namespace trtsmith
