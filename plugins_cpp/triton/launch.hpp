// Launches kernels that Triton compiled ahead of time, from binaries inside the plugin library.
//
// The driver is found through the runtime (cudaGetDriverEntryPoint): the library links none, and loads where there is none. A
// binary is loaded once into each context in which it is launched, and stays with that context. Contexts are told
// apart by their ids, which the driver never gives twice, so one that died and another at its address are no trouble.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/tensor.hpp"
#include "triton/checked.hpp"

namespace trtsmith::triton {

inline constexpr int32_t kMostConstants = 8;
inline constexpr int32_t kMostArguments = 64;
inline constexpr int32_t kMostVariables = 8;
inline constexpr int32_t kThreadsOfWarp = 32;

// What a set of binaries is for. Machine code runs on its own compute capability and, unless it is exact (sm_90a and the
// like), on later ones of the same generation. PTX is compiled by the driver, for its capability and all later ones.
struct Target {
    int32_t capability;  // 10 * major + minor
    bool exact;
    bool ptx;
};

// One binary: the kernel for a target, the types of its type variables and the inputs that are connected.
struct Image {
    int32_t target;
    int32_t tuning;
    int32_t nbInputs;
    std::array<DType, kMostVariables> types;
    bool aligned;  // only for pointers, and the sizes that say so, that are multiples of 16
    const char* name;
    size_t offset;
    int32_t warps;
    int32_t sharedBytes;
    std::array<int64_t, kMostConstants> constants;  // those that expressions read
};

// The best target for a device; -1 for none. Machine code before PTX, the latest capability first.
template <size_t N>
int32_t chooseTarget(const std::array<Target, N>& targets, int32_t capability) {
    int32_t best = -1;
    for (size_t i = 0; i < N; ++i) {
        const Target& target = targets[i];
        const bool same = target.capability == capability;
        const bool runs = target.ptx ? target.capability <= capability
                                     : same || (!target.exact && target.capability / 10 == capability / 10 &&
                                                target.capability < capability);
        if (!runs) {
            continue;
        }
        const bool better = best < 0 || (targets[static_cast<size_t>(best)].ptx && !target.ptx) ||
                            (targets[static_cast<size_t>(best)].ptx == target.ptx &&
                             targets[static_cast<size_t>(best)].capability < target.capability);
        best = better ? static_cast<int32_t>(i) : best;
    }
    return best;
}

// The functions of the driver that a launch needs, with the types that they have in CUDA 12.0: newer headers may map their
// names to others.
struct Driver {
    CUresult(CUDAAPI* ctxGetCurrent)(CUcontext*) = nullptr;
    CUresult(CUDAAPI* ctxGetId)(CUcontext, unsigned long long*) = nullptr;
    CUresult(CUDAAPI* ctxGetDevice)(CUdevice*) = nullptr;
    CUresult(CUDAAPI* deviceGetAttribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
    CUresult(CUDAAPI* moduleLoadData)(CUmodule*, const void*) = nullptr;
    CUresult(CUDAAPI* moduleGetFunction)(CUfunction*, CUmodule, const char*) = nullptr;
    CUresult(CUDAAPI* moduleUnload)(CUmodule) = nullptr;
    CUresult(CUDAAPI* funcSetAttribute)(CUfunction, CUfunction_attribute, int) = nullptr;
    CUresult(CUDAAPI* launchKernel)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                    unsigned int, unsigned int, CUstream, void**, void**) = nullptr;
    CUresult(CUDAAPI* getErrorName)(CUresult, const char**) = nullptr;
    CUresult(CUDAAPI* getErrorString)(CUresult, const char**) = nullptr;

    void require(CUresult status, const std::string& what) const {
        if (status == CUDA_SUCCESS) {
            return;
        }
        const char* name = nullptr;
        const char* text = nullptr;
        getErrorName(status, &name);
        getErrorString(status, &text);
        fail(what + ": " + (name != nullptr ? name : "CUDA error " + std::to_string(status)) + ", " +
             (text != nullptr ? text : "of which the driver says nothing"));
    }
};

template <typename Function>
void findInDriver(const char* name, Function& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    constexpr unsigned int kVersion = 12000;
    const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
#else
    const cudaError_t status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
        static_cast<void>(cudaGetLastError());
        fail(std::string("the CUDA driver has no ") + name + ": it needs a driver of CUDA 12.0 or newer (" +
             cudaGetErrorString(status) + ")");
    }
    std::memcpy(&function, &found, sizeof function);
}

// Found once; a failure is thrown, and tried again by the next call.
inline const Driver& driver() {
    static const Driver found = [] {
        Driver d;
        findInDriver("cuCtxGetCurrent", d.ctxGetCurrent);
        findInDriver("cuCtxGetId", d.ctxGetId);
        findInDriver("cuCtxGetDevice", d.ctxGetDevice);
        findInDriver("cuDeviceGetAttribute", d.deviceGetAttribute);
        findInDriver("cuModuleLoadData", d.moduleLoadData);
        findInDriver("cuModuleGetFunction", d.moduleGetFunction);
        findInDriver("cuModuleUnload", d.moduleUnload);
        findInDriver("cuFuncSetAttribute", d.funcSetAttribute);
        findInDriver("cuLaunchKernel", d.launchKernel);
        findInDriver("cuGetErrorName", d.getErrorName);
        findInDriver("cuGetErrorString", d.getErrorString);
        return d;
    }();
    return found;
}

// The context that kernels are launched in, which the runtime makes where a thread has none yet.
struct Place {
    uint64_t context;
    int32_t capability;
};

inline Place currentPlace() {
    const Driver& d = driver();
    CUcontext context = nullptr;
    d.require(d.ctxGetCurrent(&context), "the current context cannot be asked for");
    if (context == nullptr) {
        const cudaError_t status = cudaFree(nullptr);
        if (status != cudaSuccess) {
            static_cast<void>(cudaGetLastError());
            fail(std::string("there is no CUDA context, and none can be made: ") + cudaGetErrorString(status));
        }
        d.require(d.ctxGetCurrent(&context), "the current context cannot be asked for");
    }
    unsigned long long id = 0;
    CUdevice device = 0;
    int major = 0;
    int minor = 0;
    d.require(d.ctxGetId(context, &id), "the context cannot be told from others");
    d.require(d.ctxGetDevice(&device), "the context's device cannot be asked for");
    d.require(d.deviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
              "the device's compute capability cannot be asked for");
    d.require(d.deviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
              "the device's compute capability cannot be asked for");
    return {id, 10 * major + minor};
}

// Lets a thread load code while a stream of its is being captured into a CUDA graph.
class LoadingAllowed {
public:
    LoadingAllowed() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mMode)); }
    ~LoadingAllowed() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mMode)); }
    LoadingAllowed(const LoadingAllowed&) = delete;
    LoadingAllowed& operator=(const LoadingAllowed&) = delete;

private:
    cudaStreamCaptureMode mMode{cudaStreamCaptureModeRelaxed};
};

// Beyond 48 KiB a kernel must be allowed the shared memory that it asks for.
inline constexpr int32_t kFreeSharedBytes = 49152;

inline CUfunction load(const Driver& d, const unsigned char* binaries, const Image& image) {
    const LoadingAllowed allowed;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    d.require(d.moduleLoadData(&module, binaries + image.offset),
              std::string("kernel ") + image.name + " cannot be loaded");
    try {
        d.require(d.moduleGetFunction(&function, module, image.name),
                  std::string("kernel ") + image.name + " is not in its binary");
        if (image.sharedBytes > kFreeSharedBytes) {
            d.require(d.funcSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, image.sharedBytes),
                      std::string("kernel ") + image.name + " cannot have " + std::to_string(image.sharedBytes) +
                          " bytes of shared memory");
        }
    } catch (...) {
        static_cast<void>(d.moduleUnload(module));
        throw;
    }
    return function;
}

// The kernel of an image in a context. Modules go with their contexts; none is unloaded here, as a context may be gone
// before this library is.
inline CUfunction functionOf(const unsigned char* binaries, const Image& image, uint64_t context) {
    static std::mutex guard;
    static std::map<std::pair<uint64_t, const Image*>, CUfunction> loaded;
    const std::lock_guard<std::mutex> lock(guard);
    CUfunction& function = loaded[{context, &image}];
    if (function == nullptr) {
        function = load(driver(), binaries, image);
    }
    return function;
}

// The parameters of one launch, in the kernel's order.
class Arguments {
public:
    void pointer(const void* value) { put(value); }
    void int32(int64_t value, const char* name) {
        if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
            fail(std::string("argument '") + name + "' is " + std::to_string(value) +
                 "; the kernel was compiled for 32 bits (offsets=\"int64\" in its declaration)");
        }
        put(static_cast<int32_t>(value));
    }
    void int64(int64_t value) { put(value); }
    void float32(float value) { put(value); }
    void** data() { return mPointers.data(); }

private:
    template <typename T>
    void put(T value) {
        static_assert(sizeof(T) <= sizeof(uint64_t));
        if (mCount == kMostArguments) {
            fail("the kernel has too many parameters");
        }
        const auto at = static_cast<size_t>(mCount++);
        std::memcpy(&mValues[at], &value, sizeof value);
        mPointers[at] = &mValues[at];
    }

    std::array<uint64_t, kMostArguments> mValues{};
    std::array<void*, kMostArguments> mPointers{};
    int32_t mCount{0};
};

using Grid = std::array<int64_t, 3>;

inline void checkGrid(const Grid& grid) {
    constexpr Grid kMost{2147483647, 65535, 65535};
    for (size_t axis = 0; axis < grid.size(); ++axis) {
        if (grid[axis] < 1 || grid[axis] > kMost[axis]) {
            fail("the grid has " + std::to_string(grid[axis]) + " programs along axis " + std::to_string(axis) +
                 "; expected 1 to " + std::to_string(kMost[axis]));
        }
    }
}

inline void launch(const unsigned char* binaries, const Image& image, const Place& place, const Grid& grid,
                   Arguments& arguments, cudaStream_t stream) {
    checkGrid(grid);
    // Two that Triton adds to every kernel: scratch memory of its own, and of its profiler. Kernels that use either are refused
    // when they are compiled.
    arguments.pointer(nullptr);
    arguments.pointer(nullptr);
    const Driver& d = driver();
    const CUfunction function = functionOf(binaries, image, place.context);
    d.require(
        d.launchKernel(function, static_cast<unsigned int>(grid[0]), static_cast<unsigned int>(grid[1]),
                       static_cast<unsigned int>(grid[2]), static_cast<unsigned int>(kThreadsOfWarp * image.warps), 1,
                       1, static_cast<unsigned int>(image.sharedBytes), stream, arguments.data(), nullptr),
        std::string("kernel ") + image.name + " cannot be launched");
}

template <size_t N>
[[noreturn]] void failForCapability(const std::array<Target, N>& targets, int32_t capability) {
    std::string known;
    for (const Target& target : targets) {
        known += (known.empty() ? "" : ", ") + std::string(target.ptx ? "PTX of " : "") +
                 std::to_string(target.capability / 10) + "." + std::to_string(target.capability % 10);
    }
    fail("there is no kernel for compute capability " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10) + "; this library has " + known + " (build it for more architectures)");
}

inline bool isMultipleOf16(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }
inline bool isMultipleOf16(int64_t size) { return size % 16 == 0; }

// "" or which tensor is too large for offsets of 32 bits.
template <typename Signature>
std::string checkOffsets(const Signature& signature, const Tensors& t) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const auto fault = [](const char* name, const Tensor& tensor) {
        const int64_t count = elements(tensor);
        return count <= kMost ? std::string()
                              : std::string("'") + name + "' has " + std::to_string(count) +
                                    " elements; this kernel's offsets are 32 bits wide, for at most 2147483647 "
                                    "(offsets=\"int64\" in its declaration)";
    };
    for (int32_t i = 0; i < t.nbInputs; ++i) {
        const std::string found = fault(signature.inputs[static_cast<size_t>(i)].name, t.in[static_cast<size_t>(i)]);
        if (!found.empty()) {
            return found;
        }
    }
    for (int32_t i = 0; i < signature.nbOutputs(); ++i) {
        const std::string found = fault(signature.outputs[static_cast<size_t>(i)].name, t.out[static_cast<size_t>(i)]);
        if (!found.empty()) {
            return found;
        }
    }
    return {};
}

}  // namespace trtsmith::triton
