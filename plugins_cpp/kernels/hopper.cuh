// Instructions that only sm_90a has, or that are worth using only there, as thin functions: asynchronous matrix products
// of a warpgroup, bulk copies, barriers in shared memory that count bytes. PTX ISA, sections on wgmma, mbarrier,
// cp.async.bulk and setmaxnreg.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace trtsmith {
namespace hopper {

constexpr int kWarpgroup = 128;  // threads

// A barrier in shared memory. Its phase ends when `arrivals` threads have arrived and the expected bytes have come.
__device__ inline void initBarrier(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes the barriers' initial state visible to the copy engine.
__device__ inline void fenceBarrierInit() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void arriveExpecting(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Until the phase of that parity has ended.
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// Among `threads` threads of the block, a multiple of 32. Number 0 is __syncthreads.
__device__ inline void syncThreads(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Arrives there without waiting.
__device__ inline void arriveThreads(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// `bytes`, a multiple of 16, from device to shared memory by the copy engine; they count at the barrier.
__device__ inline void copyBulk(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
        "l"(source), "r"(bytes), "r"(barrier)
        : "memory");
}

// What this thread stored to shared memory becomes visible to asynchronous products.
__device__ inline void fenceAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// In a kernel that was launched with launchAfter: until the kernel before it has ended, and its stores can be read.
__device__ inline void waitForKernelBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Registers that a thread of this warpgroup has from now on, instead of the kEntry that the kernel starts with.
template <int kRegisters, int kEntry>
__device__ inline void setRegisters() {
    if constexpr (kRegisters > kEntry) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
    }
}

// Rows of 128 bytes in shared memory, from an address that is a multiple of 1,024, their 16-byte chunks exchanged by the
// last 3 bits of the row's number; to go along a row, the address may advance by whole products (32 bytes).
__device__ inline uint64_t describeRows(uint32_t address) {
    constexpr uint64_t kEightRows = uint64_t{1024 / 16} << 32;
    constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
    return static_cast<uint64_t>((address & 0x3FFFFU) >> 4) | uint64_t{1} << 16 | kEightRows | kSwizzle128;
}

// Between ordinary accesses to a product's registers and the product.
__device__ inline void fenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most kPending of the committed groups are under way.
template <int kPending>
__device__ inline void waitProducts() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses to the sums over this point.
template <int kCount>
__device__ inline void pin(float (&sums)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(sums[i])::"memory");
    }
}

// The type of the operands is part of the instruction's name, which only the preprocessor can put together.
#define TRTSMITH_MULTIPLY_ASYNC_64(TYPE)                                                                               \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        ".reg .pred add;\n"                                                                                            \
        "setp.ne.b32 add, %34, 0;\n"                                                                                   \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE                                                    \
        " {"                                                                                                           \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                       \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                            \
        "%32, %33, add, 1, 1, 0, 0;\n"                                                                                 \
        "}\n"                                                                                                          \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]),     \
          "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), \
          "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]),              \
          "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]),              \
          "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])               \
        : "l"(a), "l"(b), "r"(static_cast<int>(add)))

#define TRTSMITH_MULTIPLY_ASYNC_128(TYPE)                                                                              \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        ".reg .pred add;\n"                                                                                            \
        "setp.ne.b32 add, %66, 0;\n"                                                                                   \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE                                                   \
        " {"                                                                                                           \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                       \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                             \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "                            \
        "%64, %65, add, 1, 1, 0, 0;\n"                                                                                 \
        "}\n"                                                                                                          \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]),     \
          "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), \
          "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]),              \
          "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]),              \
          "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]),              \
          "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]),              \
          "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]),              \
          "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]),              \
          "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]),              \
          "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]),              \
          "+f"(sums[62]), "+f"(sums[63])                                                                               \
        : "l"(a), "l"(b), "r"(static_cast<int>(add)))

// sums[64 x N] (+)= a[64 x 16] * b[N x 16]^T, N of 64 or 128, both in shared memory as describeRows says. Lane's
// sums 4j to 4j + 3: row lane / 4, columns 8j + 2 (lane % 4) and the next; then row lane / 4 + 8. A warp has 16 rows.
__device__ inline void multiplyAsync(float (&sums)[32], uint64_t a, uint64_t b, bool add, __half) {
    TRTSMITH_MULTIPLY_ASYNC_64("f16");
}
__device__ inline void multiplyAsync(float (&sums)[32], uint64_t a, uint64_t b, bool add, __nv_bfloat16) {
    TRTSMITH_MULTIPLY_ASYNC_64("bf16");
}
__device__ inline void multiplyAsync(float (&sums)[64], uint64_t a, uint64_t b, bool add, __half) {
    TRTSMITH_MULTIPLY_ASYNC_128("f16");
}
__device__ inline void multiplyAsync(float (&sums)[64], uint64_t a, uint64_t b, bool add, __nv_bfloat16) {
    TRTSMITH_MULTIPLY_ASYNC_128("bf16");
}

#undef TRTSMITH_MULTIPLY_ASYNC_64
#undef TRTSMITH_MULTIPLY_ASYNC_128

}  // namespace hopper
}  // namespace trtsmith
