// Products of a warp's 16 places with 16 keys, and of their shares with 16 values: with tensor cores, and without.
#pragma once

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/tensor_core.cuh"
#include "kernels/warp.cuh"

namespace trtsmith {

constexpr int kGroup = 16;  // places of a warp, and keys that it computes with at a time

// Four lanes have rows r and r + 8 of a warp: numbers [n][2 * i] and [n][2 * i + 1] of row i are its elements at
// dimension(n) and the next. Scores [i][j] are those of row i with the key column(j) of a group.
template <typename T, int kWidth, int kPitch>
struct TensorProducts {
    uint32_t query[kWidth / 16][4];

    static __device__ int dimension(int n, int part) { return 8 * n + 2 * part; }
    static __device__ int column(int j, int part) { return j / 2 * 8 + 2 * part + j % 2; }

    __device__ void keep(int n, int i, const T (&pair)[2]) { memcpy(&query[n / 2][n % 2 * 2 + i], pair, sizeof(pair)); }

    __device__ void score(const T* keys, int lane, float (&scores)[2][4]) const {
        float tiles[2][4] = {};
        const uint32_t from = sharedAddress(keys + (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 8);
        for (int step = 0; step < kWidth / 16; ++step) {
            uint32_t b[4];
            loadMatrices(b, from + 32 * step);
            multiplyTile(tiles[0], query[step], b[0], b[1], T{});
            multiplyTile(tiles[1], query[step], b[2], b[3], T{});
        }
        for (int j = 0; j < 4; ++j) {
            scores[0][j] = tiles[j / 2][j % 2];
            scores[1][j] = tiles[j / 2][2 + j % 2];
        }
    }

    static __device__ void add(const T* values, int lane, const float (&shares)[2][4], float (&sums)[kWidth / 8][4]) {
        uint32_t a[4];
        for (int i = 0; i < 4; ++i) {
            const T pair[2] = {fromFloat<T>(shares[i % 2][i / 2 * 2]), fromFloat<T>(shares[i % 2][i / 2 * 2 + 1])};
            memcpy(&a[i], pair, sizeof(pair));
        }
        const uint32_t from = sharedAddress(values + lane % 16 * kPitch + lane / 16 * 8);
        for (int step = 0; step < kWidth / 16; ++step) {
            uint32_t b[4];
            loadTransposed(b, from + 32 * step);
            multiplyTile(sums[2 * step], a, b[0], b[1], T{});
            multiplyTile(sums[2 * step + 1], a, b[2], b[3], T{});
        }
    }
};

// The same without tensor cores.
template <typename T, int kWidth, int kPitch>
struct ScalarProducts {
    float query[kWidth / 8][4];

    static __device__ int dimension(int n, int part) { return n / 2 * 16 + 4 * part + n % 2 * 2; }
    static __device__ int column(int j, int part) { return 4 * j + part; }

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

    __device__ void score(const T* keys, int lane, float (&scores)[2][4]) const {
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
                scores[i][j] = (part % 2 == 0 ? half[0] : half[1]) + away;
            }
        }
    }

    static __device__ void add(const T* values, int lane, const float (&shares)[2][4], float (&sums)[kWidth / 8][4]) {
#pragma unroll  // as above
        for (int key = 0; key < kGroup; ++key) {
            float share[2];
            for (int i = 0; i < 2; ++i) {
                share[i] = __shfl_sync(kAllLanes, shares[i][key / 4], key % 4, 4);
            }
            for (int n = 0; n < kWidth / 8; n += 2) {
                float x[4];
                load(values + key * kPitch, n, lane % 4, x);
                for (int i = 0; i < 4; ++i) {
                    sums[n][i] = fmaf(share[i / 2], x[i % 2], sums[n][i]);
                    sums[n + 1][i] = fmaf(share[i / 2], x[2 + i % 2], sums[n + 1][i]);
                }
            }
        }
    }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
constexpr bool kModern = true;
#else
constexpr bool kModern = false;
#endif

__device__ inline void copyRow(void* target, const void* source, bool valid) {
    if constexpr (kModern) {
        copyAsync(sharedAddress(target), source, valid);
    } else {
        *static_cast<uint4*>(target) = valid ? __ldg(static_cast<const uint4*>(source)) : uint4{};
    }
}

}  // namespace trtsmith
