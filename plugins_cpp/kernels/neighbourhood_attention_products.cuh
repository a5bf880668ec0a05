// Products of a warp's 16 places with keys, and of their shares with values: with tensor cores, and without.
#pragma once

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/hopper.cuh"
#include "kernels/tensor_core.cuh"
#include "kernels/warp.cuh"

namespace trtsmith {

constexpr int kPlaces = 16;  // places of a warp

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
constexpr bool kModern = true;
#else
constexpr bool kModern = false;
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool kHopper = true;
#else
constexpr bool kHopper = false;
#endif

// Shares of 16 keys at `shares`, as a product's first operand.
template <typename T>
__device__ inline void pack(const float* shares, uint32_t (&a)[4]) {
    for (int i = 0; i < 4; ++i) {
        const T pair[2] = {fromFloat<T>(shares[2 * i]), fromFloat<T>(shares[2 * i + 1])};
        memcpy(&a[i], pair, sizeof(pair));
    }
}

// Four lanes have rows r and r + 8 of a warp: sums 4 * n + 2 * i and the next are elements dimension(n) and the next of row i,
// and scores 4 * j + 2 * i and the next are of row i with the keys column(2 * j) and column(2 * j + 1) of kAtOnce. A word of
// a key's row is at place(key, word) of a tile.
struct ProductPlaces {
    static __device__ int dimension(int n, int part) { return 8 * n + 2 * part; }
    static __device__ int column(int j, int part) { return j / 2 * 8 + 2 * part + j % 2; }
};

template <typename T, int kWidth>
struct TensorProducts : ProductPlaces {
    static constexpr int kAtOnce = 16;
    static constexpr int kPitch = kWidth + 8;  // rows that matrices meet in other banks
    uint32_t query[kWidth / 16][4];

    static __device__ int place(int key, int word) { return key * kPitch + word; }

    __device__ void keep(int n, int i, const T (&pair)[2]) { memcpy(&query[n / 2][n % 2 * 2 + i], pair, sizeof(pair)); }

    __device__ void score(const T* keys, int lane, float (&scores)[8]) const {
        float tiles[2][4] = {};
        const uint32_t from = sharedAddress(keys + (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 8);
        for (int step = 0; step < kWidth / 16; ++step) {
            uint32_t b[4];
            loadMatrices(b, from + 32 * step);
            multiplyTile(tiles[0], query[step], b[0], b[1], T{});
            multiplyTile(tiles[1], query[step], b[2], b[3], T{});
        }
        for (int j = 0; j < 8; ++j) {
            scores[j] = tiles[j / 4][j % 4];
        }
    }

    static __device__ void add(const T* values, int lane, const float (&shares)[8], float (&sums)[kWidth / 2]) {
        uint32_t a[4];
        pack<T>(shares, a);
        const uint32_t from = sharedAddress(values + lane % 16 * kPitch + lane / 16 * 8);
        for (int step = 0; step < kWidth / 16; ++step) {
            uint32_t b[4];
            loadTransposed(b, from + 32 * step);
            for (int i = 0; i < 2; ++i) {
                multiplyTile(reinterpret_cast<float (&)[4]>(sums[8 * step + 4 * i]), a, b[2 * i], b[2 * i + 1], T{});
            }
        }
    }
};

// The same for the four warps of a block together, by asynchronous products: queries, keys and values are in shared memory,
// columns in groups of 64, each with rows of 128 bytes. With queries in registers, ptxas 13.0 gave these to the shares too,
// and 64 numbers a head came out wrong.
template <typename T, int kWidth, int kKeys>
struct HopperProducts : ProductPlaces {
    static constexpr int kAtOnce = kKeys;
    static constexpr int kPitch = kWidth;

    static __device__ int place(int key, int word, int rows = kKeys) {
        return word / 64 * rows * 64 + key * 64 + (word % 64 / 8 ^ key % 8) * 8 + word % 8;
    }

    static __device__ T* queries() {
        extern __shared__ uint4 dynamicShared[];
        return reinterpret_cast<T*>(reinterpret_cast<char*>(dynamicShared) + (-sharedAddress(dynamicShared) & 1023U));
    }

    static __device__ void keep(int n, int i, const T (&pair)[2]) {
        const int thread = static_cast<int>(threadIdx.x);
        const int row = thread / 32 * kPlaces + thread % 32 / 4 + 8 * i;
        memcpy(queries() + place(row, 8 * n + 2 * (thread % 4), 4 * kPlaces), pair, sizeof(pair));
    }

    static __device__ void score(const T* keys, int, float (&scores)[kKeys / 2]) {
        hopper::pin(scores);
        hopper::fenceProducts();
#pragma unroll
        for (int step = 0; step < kWidth / 16; ++step) {
            const int from = step / 4 * 128;
            hopper::multiplyAsync(
                scores, hopper::describeRows(sharedAddress(queries()) + from * 4 * kPlaces + step % 4 * 32),
                hopper::describeRows(sharedAddress(keys) + from * kKeys + step % 4 * 32), step > 0, T{});
        }
        hopper::commitProducts();
        hopper::waitProducts<0>();
        hopper::pin(scores);
    }

    static __device__ void add(const T* values, int, const float (&shares)[kKeys / 2], float (&sums)[kWidth / 2]) {
        uint32_t a[kKeys / 16][4];
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
            pack<T>(shares + 8 * step, a[step]);
        }
        hopper::pin(sums);
        hopper::fenceProducts();
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
            const uint64_t rows = hopper::describeRows(sharedAddress(values) + step * 16 * 128, kKeys * 128);
            hopper::multiplyTransposed(sums, a[step], rows, T{});
        }
        hopper::commitProducts();
        hopper::waitProducts<0>();
        hopper::pin(sums);
    }
};

// The same without tensor cores.
template <typename T, int kWidth>
struct ScalarProducts {
    static constexpr int kAtOnce = 16;
    static constexpr int kPitch = kWidth + 16 / static_cast<int>(sizeof(T));
    float query[kWidth / 8][4];

    static __device__ int dimension(int n, int part) { return n / 2 * 16 + 4 * part + n % 2 * 2; }
    static __device__ int column(int j, int part) { return 4 * j + part; }
    static __device__ int place(int key, int word) { return key * kPitch + word; }

    __device__ void keep(int n, int i, const T (&pair)[2]) {
        query[n][2 * i] = toFloat(pair[0]);
        query[n][2 * i + 1] = toFloat(pair[1]);
    }

    // Elements at dimension(n), the next, and the same of n + 1.
    static __device__ void load(const T* row, int n, int part, float (&x)[4]) {
        using Word = typename WordOf<4 * sizeof(T)>::type;
        const Word word = *reinterpret_cast<const Word*>(row + dimension(n, part));
        T elements[4];
        memcpy(static_cast<void*>(elements), &word, sizeof(word));
        for (int i = 0; i < 4; ++i) {
            x[i] = toFloat(elements[i]);
        }
    }

    __device__ void score(const T* keys, int lane, float (&scores)[8]) const {
        const int part = lane % 4;
#pragma unroll  // without it, arrays of 128 numbers a head are in local memory: 2060 us on an H200, with it 1739 on an H100
        for (int j = 0; j < 4; ++j) {
            float sums[2][4] = {};
            for (int key = 0; key < 4; ++key) {
                for (int n = 0; n < kWidth / 8; n += 2) {
                    float x[4];
                    load(keys + (4 * j + key) * kPitch, n, part, x);
                    for (int i = 0; i < 2; ++i) {
                        float& sum = sums[i][key];
                        sum = fmaf(query[n][2 * i], x[0], fmaf(query[n][2 * i + 1], x[1], sum));
                        sum = fmaf(query[n + 1][2 * i], x[2], fmaf(query[n + 1][2 * i + 1], x[3], sum));
                    }
                }
            }
            // Sums over the four lanes, of which each keeps that of one key.
            for (int i = 0; i < 2; ++i) {
                float half[2];
                for (int key = 0; key < 2; ++key) {
                    const float away = __shfl_xor_sync(kAllLanes, part < 2 ? sums[i][2 + key] : sums[i][key], 2);
                    half[key] = (part < 2 ? sums[i][key] : sums[i][2 + key]) + away;
                }
                const float away = __shfl_xor_sync(kAllLanes, part % 2 == 0 ? half[1] : half[0], 1);
                scores[j / 2 * 4 + 2 * i + j % 2] = (part % 2 == 0 ? half[0] : half[1]) + away;
            }
        }
    }

    static __device__ void add(const T* values, int lane, const float (&shares)[8], float (&sums)[kWidth / 2]) {
#pragma unroll  // as above
        for (int key = 0; key < kAtOnce; ++key) {
            float share[2];
            for (int i = 0; i < 2; ++i) {
                share[i] = __shfl_sync(kAllLanes, shares[key / 8 * 4 + 2 * i + key / 4 % 2], key % 4, 4);
            }
            for (int n = 0; n < kWidth / 8; n += 2) {
                float x[4];
                load(values + key * kPitch, n, lane % 4, x);
                for (int i = 0; i < 4; ++i) {
                    sums[4 * n + i] = fmaf(share[i / 2], x[i % 2], sums[4 * n + i]);
                    sums[4 * n + 4 + i] = fmaf(share[i / 2], x[2 + i % 2], sums[4 * n + 4 + i]);
                }
            }
        }
    }
};

__device__ inline void copyRow(void* target, const void* source, bool valid) {
    if constexpr (kModern) {
        copyAsync(sharedAddress(target), source, valid);
    } else {
        *static_cast<uint4*>(target) = valid ? __ldg(static_cast<const uint4*>(source)) : uint4{};
    }
}

}  // namespace trtsmith
