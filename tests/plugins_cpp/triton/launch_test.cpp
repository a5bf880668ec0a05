// Launches of kernels that Triton compiled, on a CUDA driver of the test's own. Prints what is wrong; exits 1 if anything is.
#include "triton/launch.hpp"

#include <set>
#include <thread>
#include <vector>

#include "core/signature.hpp"
#include "expect.hpp"

using namespace trtsmith;
using namespace trtsmith::triton;
using expecting::expect;
using expecting::expectFailure;

namespace {

// A machine: contexts at addresses that may be used again, each with an id that never is.
struct Context {
    unsigned long long id;
    int device;
};

struct Launched {
    std::string name;
    unsigned long long context;
    std::array<unsigned int, 3> grid;
    unsigned int threads;
    unsigned int sharedBytes;
    std::vector<uint64_t> arguments;
};

bool hasDriver = true;
thread_local Context* current = nullptr;
Context primary{1, 0};
std::array<int, 2> capabilities{86, 90};
std::vector<std::pair<const void*, unsigned long long>> loads;
std::set<std::string> functions;
std::vector<Launched> launches;
int allowedSharedBytes = 0;
int unloads = 0;
size_t argumentsOfKernel = 0;
CUresult nextLoad = CUDA_SUCCESS;
cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
bool loadedInRelaxedMode = true;

CUresult ctxGetCurrent(CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(current);
    return CUDA_SUCCESS;
}
CUresult ctxGetId(CUcontext context, unsigned long long* id) {
    *id = reinterpret_cast<Context*>(context)->id;
    return CUDA_SUCCESS;
}
CUresult ctxGetDevice(CUdevice* device) {
    *device = current->device;
    return CUDA_SUCCESS;
}
CUresult deviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    const int capability = capabilities[static_cast<size_t>(device)];
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? capability / 10 : capability % 10;
    return CUDA_SUCCESS;
}
CUresult moduleLoadData(CUmodule* module, const void* data) {
    loadedInRelaxedMode = loadedInRelaxedMode && mode == cudaStreamCaptureModeRelaxed;
    loads.emplace_back(data, current->id);
    *module = reinterpret_cast<CUmodule>(loads.size());
    const CUresult result = nextLoad;
    nextLoad = CUDA_SUCCESS;
    return result;
}
CUresult moduleGetFunction(CUfunction* function, CUmodule, const char* name) {
    *function = reinterpret_cast<CUfunction>(const_cast<char*>(functions.insert(name).first->c_str()));
    return CUDA_SUCCESS;
}
CUresult moduleUnload(CUmodule) {
    ++unloads;
    return CUDA_SUCCESS;
}
CUresult funcSetAttribute(CUfunction, CUfunction_attribute, int value) {
    allowedSharedBytes = value;
    return value > 200000 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult launchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads,
                      unsigned int, unsigned int, unsigned int sharedBytes, CUstream, void** arguments, void**) {
    Launched one{reinterpret_cast<const char*>(function), current->id, {x, y, z}, threads, sharedBytes, {}};
    for (size_t i = 0; i < argumentsOfKernel; ++i) {
        uint64_t value = 0;
        std::memcpy(&value, arguments[i], sizeof value);
        one.arguments.push_back(value);
    }
    launches.push_back(one);
    return CUDA_SUCCESS;
}
CUresult getErrorName(CUresult, const char** text) {
    *text = "CUDA_ERROR_OF_THE_TEST";
    return CUDA_SUCCESS;
}
CUresult getErrorString(CUresult, const char** text) {
    *text = "it was asked for";
    return CUDA_SUCCESS;
}

void* find(const std::string& name) {
    const std::map<std::string, void*> known{
        {"cuCtxGetCurrent", reinterpret_cast<void*>(&ctxGetCurrent)},
        {"cuCtxGetId", reinterpret_cast<void*>(&ctxGetId)},
        {"cuCtxGetDevice", reinterpret_cast<void*>(&ctxGetDevice)},
        {"cuDeviceGetAttribute", reinterpret_cast<void*>(&deviceGetAttribute)},
        {"cuModuleLoadData", reinterpret_cast<void*>(&moduleLoadData)},
        {"cuModuleGetFunction", reinterpret_cast<void*>(&moduleGetFunction)},
        {"cuModuleUnload", reinterpret_cast<void*>(&moduleUnload)},
        {"cuFuncSetAttribute", reinterpret_cast<void*>(&funcSetAttribute)},
        {"cuLaunchKernel", reinterpret_cast<void*>(&launchKernel)},
        {"cuGetErrorName", reinterpret_cast<void*>(&getErrorName)},
        {"cuGetErrorString", reinterpret_cast<void*>(&getErrorString)},
    };
    const auto found = known.find(name);
    return found == known.end() ? nullptr : found->second;
}

}  // namespace

extern "C" {

static cudaError_t entryPoint(const char* symbol, void** function, cudaDriverEntryPointQueryResult* result) {
    *function = hasDriver ? find(symbol) : nullptr;
    *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return hasDriver ? cudaSuccess : cudaErrorInsufficientDriver;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
    return entryPoint(symbol, function, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
    return entryPoint(symbol, function, result);
}
#endif

cudaError_t cudaFree(void*) {
    current = &primary;
    return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "no driver"; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* other) {
    std::swap(mode, *other);
    return cudaSuccess;
}

}  // extern "C"

namespace {

constexpr std::array<Target, 3> kTargets{{{86, false, false}, {90, true, false}, {86, false, true}}};
constexpr std::array<unsigned char, 64> kBinaries{};
constexpr Image kSmall{0, 0, 1, {DType::kFloat32}, true, "small", 0, 4, 1024, {32}};
constexpr Image kLarge{1, 0, 1, {DType::kFloat32}, true, "large", 16, 8, 100000, {64}};
constexpr Image kTooLarge{1, 0, 1, {DType::kFloat32}, true, "too_large", 32, 8, 220000, {64}};

void launchOn(const Image& image, const Grid& grid = {5, 1, 1}) {
    Arguments arguments;
    launch(kBinaries.data(), image, currentPlace(), grid, arguments, nullptr);
}

void targets() {
    expect(chooseTarget(kTargets, 86) == 0, "machine code before PTX");
    expect(chooseTarget(kTargets, 89) == 0, "machine code of 8.6 runs on 8.9");
    expect(chooseTarget(kTargets, 90) == 1, "machine code of 9.0 runs on 9.0");
    expect(chooseTarget(kTargets, 103) == 2, "later GPUs get PTX, not what is for 9.0 exactly");
    expect(chooseTarget(kTargets, 80) == -1, "nothing runs on 8.0");
    expectFailure("compute capability 8.0; this library has 8.6, 9.0, PTX of 8.6",
                  [] { failForCapability(kTargets, 80); });
}

void noDriver() {
    hasDriver = false;
    expectFailure("the CUDA driver has no cuCtxGetCurrent", [] { currentPlace(); });
    hasDriver = true;
    expect(currentPlace().capability == 86, "a driver that is there later is found");
    expect(current == &primary, "a thread without a context gets the primary one");
}

void arguments() {
    Arguments given;
    const int pointed = 0;
    given.pointer(&pointed);
    given.int32(-7, "n");
    given.int64(int64_t{1} << 40);
    given.float32(0.5F);
    expectFailure("argument 'rows' is 2147483648", [&] { given.int32(int64_t{1} << 31, "rows"); });
    argumentsOfKernel = 6;
    launch(kBinaries.data(), kSmall, currentPlace(), {5, 2, 3}, given, nullptr);
    argumentsOfKernel = 0;
    const Launched& one = launches.back();
    const float half = 0.5F;
    uint32_t bits = 0;
    std::memcpy(&bits, &half, sizeof bits);
    const std::vector<uint64_t> expected{
        reinterpret_cast<uint64_t>(&pointed), static_cast<uint32_t>(-7), uint64_t{1} << 40, bits, 0, 0};
    expect(one.arguments == expected, "parameters in order, and two null pointers for Triton");
    expect(one.grid == std::array<unsigned int, 3>{5, 2, 3}, "the grid");
    expect(one.threads == 128 && one.sharedBytes == 1024, "4 warps and their shared memory");
}

void contexts() {
    loads.clear();
    Context second{2, 1};
    current = &second;
    launchOn(kLarge);
    launchOn(kLarge);
    expect(loads.size() == 1 && loads[0].first == kBinaries.data() + 16, "loaded once, from its place");
    expect(allowedSharedBytes == 100000, "more than 48 KiB of shared memory must be allowed");
    current = &primary;
    launchOn(kLarge);
    expect(loads.size() == 2, "and once into another context");
    second = {3, 1};  // the context died, and another one has its address
    current = &second;
    launchOn(kLarge);
    expect(loads.size() == 3 && loads[2].second == 3, "a context at the address of a dead one is another");
    expect(loadedInRelaxedMode && mode == cudaStreamCaptureModeGlobal, "loading does not spoil a capture");
    current = &primary;
}

void failures() {
    nextLoad = CUDA_ERROR_INVALID_IMAGE;
    Context third{4, 1};
    current = &third;
    const size_t before = loads.size();
    expectFailure("kernel small cannot be loaded: CUDA_ERROR_OF_THE_TEST, it was asked for", [] { launchOn(kSmall); });
    launchOn(kSmall);
    expect(loads.size() == before + 2, "a load that failed is tried again");
    expectFailure("kernel too_large cannot have 220000 bytes of shared memory", [] { launchOn(kTooLarge); });
    expect(unloads == 1, "a module whose kernel cannot run does not stay");
    expectFailure("the grid has 0 programs along axis 0", [] { launchOn(kSmall, {0, 1, 1}); });
    expectFailure("the grid has 65536 programs along axis 1; expected 1 to 65535",
                  [] { launchOn(kSmall, {1, 65536, 1}); });
    expectFailure("the grid has 2147483648", [] { launchOn(kSmall, {int64_t{1} << 31, 1, 1}); });
    current = &primary;
}

void threads() {
    loads.clear();
    Context fourth{5, 0};
    std::vector<std::thread> all;
    for (int i = 0; i < 8; ++i) {
        all.emplace_back([&] {
            current = &fourth;
            static_cast<void>(functionOf(kBinaries.data(), kSmall, fourth.id));
        });
    }
    for (std::thread& one : all) {
        one.join();
    }
    expect(loads.size() == 1, "eight threads load a kernel once");
}

void sizes() {
    constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
    expect(floorDivide(-7, 2) == -4 && ceilDivide(7, 2) == 4 && ceilDivide(-7, 2) == -3, "towards minus infinity");
    expect(modulo(-7, 3) == 2 && modulo(7, -3) == -2, "as Python's %");
    expectFailure("does not fit into 64 bits", [] { add(kLargest, 1); });
    expectFailure("does not fit into 64 bits", [] { multiply(kLargest, 2); });
    expectFailure("does not fit into 64 bits", [] { floorDivide(-kLargest - 1, -1); });
    expectFailure("divides by zero", [] { ceilDivide(1, 0); });
    Tensor tensor{};
    tensor.shape = Shape<int64_t>::of(int64_t{3}, int64_t{4});
    expect(dimension(tensor, -1, "x") == 4 && elements(tensor) == 12, "the last dimension, all elements");
    expectFailure("'x' has 2 dimensions", [&] { dimension(tensor, 2, "x"); });
    tensor.shape = Shape<int64_t>::of(kLargest, kLargest, int64_t{0});
    expect(elements(tensor) == 0, "a tensor without elements, whatever its other sizes");

    constexpr Signature<1, 1> kSignature{{{{"x", TypeVar::kT, 1}}}, {{{"y", TypeVar::kT, 1}}}};
    Tensors t;
    t.nbInputs = 1;
    t.in[0].shape = Shape<int64_t>::of(int64_t{2147483647});
    t.out[0].shape = t.in[0].shape;
    expect(checkOffsets(kSignature, t).empty(), "2^31 - 1 elements fit");
    t.out[0].shape = Shape<int64_t>::of(int64_t{2147483648});
    expect(checkOffsets(kSignature, t).find("'y' has 2147483648 elements") == 0, checkOffsets(kSignature, t));
    expect(isMultipleOf16(reinterpret_cast<const void*>(32)) && !isMultipleOf16(reinterpret_cast<const void*>(34)),
           "alignment of a pointer");
}

}  // namespace

int main() {
    targets();
    noDriver();
    arguments();
    contexts();
    failures();
    threads();
    sizes();
    return expecting::exitCode();
}
