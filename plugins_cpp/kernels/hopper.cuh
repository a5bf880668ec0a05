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
// last 3 bits of the row's number; to go along a row, the address may advance by whole products (32 bytes). `apart`: bytes
// to the next 64 columns, where a product reads b transposed and has more.
__device__ inline uint64_t describeRows(uint32_t address, uint32_t apart = 16) {
    constexpr uint64_t kEightRows = uint64_t{1024 / 16} << 32;
    constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
    return static_cast<uint64_t>((address & 0x3FFFFU) >> 4) | uint64_t{apart / 16} << 16 | kEightRows | kSwizzle128;
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

// The shape and the operands' type are parts of the instruction's name, which only the preprocessor can put together.
#define TRTSMITH_NUMBERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define TRTSMITH_NUMBERS_32 \
    TRTSMITH_NUMBERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TRTSMITH_NUMBERS_64                                                                                       \
    TRTSMITH_NUMBERS_32                                                                                           \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
    "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TRTSMITH_SUMS_4(I) "+f"(sums[I]), "+f"(sums[I + 1]), "+f"(sums[I + 2]), "+f"(sums[I + 3])
#define TRTSMITH_SUMS_16(I) TRTSMITH_SUMS_4(I), TRTSMITH_SUMS_4(I + 4), TRTSMITH_SUMS_4(I + 8), TRTSMITH_SUMS_4(I + 12)
#define TRTSMITH_SUMS_32(I) TRTSMITH_SUMS_16(I), TRTSMITH_SUMS_16(I + 16)
#define TRTSMITH_SUMS_64(I) TRTSMITH_SUMS_32(I), TRTSMITH_SUMS_32(I + 32)
// ADD is the number of the operand that says whether to add, OPERANDS those before it, and TRANSPOSED what follows.
#define TRTSMITH_MULTIPLY(COLUMNS, TYPE, COUNT, OPERANDS, ADD, TRANSPOSED, ...)                                   \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" COLUMNS    \
                 "k16.f32." TYPE "." TYPE " {" TRTSMITH_NUMBERS_##COUNT "}, " OPERANDS ", add, 1, 1, " TRANSPOSED \
                                                                        ";\n}\n"                                  \
                 : TRTSMITH_SUMS_##COUNT(0)                                                                       \
                 : __VA_ARGS__)

// sums[64 x N] (+)= a[64 x 16] * b[N x 16]^T, N of 32, 64 or 128, both in shared memory as describeRows says. Lane's
// sums 4j to 4j + 3: row lane / 4, columns 8j + 2 (lane % 4) and the next; then row lane / 4 + 8. A warp has 16 rows.
#define TRTSMITH_MULTIPLY_ASYNC(COLUMNS, COUNT, A, ADD, T, TYPE)                                             \
    __device__ inline void multiplyAsync(float (&sums)[COUNT], uint64_t a, uint64_t b, bool add, T) {        \
        TRTSMITH_MULTIPLY(COLUMNS, TYPE, COUNT, A, ADD, "0, 0", "l"(a), "l"(b), "r"(static_cast<int>(add))); \
    }
// sums[64 x N] += a[64 x 16] * b[16 x N], N of 64 or 128, a in registers, in each warp as mma.m16n8k16 has it.
#define TRTSMITH_MULTIPLY_TRANSPOSED(COLUMNS, COUNT, A, ADD, T, TYPE)                                            \
    __device__ inline void multiplyTransposed(float (&sums)[COUNT], const uint32_t (&a)[4], uint64_t b, T) {     \
        TRTSMITH_MULTIPLY(COLUMNS, TYPE, COUNT, A, ADD, "1", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), \
                          "r"(1));                                                                               \
    }
#define TRTSMITH_PRODUCTS(T, TYPE)                                                      \
    TRTSMITH_MULTIPLY_ASYNC("32", 16, "%16, %17", "%18", T, TYPE)                       \
    TRTSMITH_MULTIPLY_ASYNC("64", 32, "%32, %33", "%34", T, TYPE)                       \
    TRTSMITH_MULTIPLY_ASYNC("128", 64, "%64, %65", "%66", T, TYPE)                      \
    TRTSMITH_MULTIPLY_TRANSPOSED("64", 32, "{%32, %33, %34, %35}, %36", "%37", T, TYPE) \
    TRTSMITH_MULTIPLY_TRANSPOSED("128", 64, "{%64, %65, %66, %67}, %68", "%69", T, TYPE)
TRTSMITH_PRODUCTS(__half, "f16")
TRTSMITH_PRODUCTS(__nv_bfloat16, "bf16")
#undef TRTSMITH_PRODUCTS
#undef TRTSMITH_MULTIPLY_ASYNC
#undef TRTSMITH_MULTIPLY_TRANSPOSED
#undef TRTSMITH_MULTIPLY
#undef TRTSMITH_NUMBERS_16
#undef TRTSMITH_NUMBERS_32
#undef TRTSMITH_NUMBERS_64
#undef TRTSMITH_SUMS_4
#undef TRTSMITH_SUMS_16
#undef TRTSMITH_SUMS_32
#undef TRTSMITH_SUMS_64

}  // namespace hopper
}  // namespace trtsmith
