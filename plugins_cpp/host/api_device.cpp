// The C ABI: device memory, streams, running a plugin and timing it.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "handles.hpp"

using namespace trtsmith::host;

namespace {

void check(cudaError_t status, const char* call) {
    if (status != cudaSuccess) {
        throw Failure(TSH_CUDA,
                      std::string(call) + " failed: " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
    }
}

void checkEnqueue(int32_t status) {
    if (status != 0) {
        throw Failure(TSH_REFUSED, "enqueue returned " + std::to_string(status));
    }
    check(cudaPeekAtLastError(), "the launch by enqueue");
}

cudaStream_t toStream(void* stream) { return static_cast<cudaStream_t>(stream); }

class Event {
public:
    Event() { check(cudaEventCreate(&mEvent), "cudaEventCreate"); }

    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    ~Event() { cudaEventDestroy(mEvent); }

    void record(cudaStream_t stream) { check(cudaEventRecord(mEvent, stream), "cudaEventRecord"); }

    // Milliseconds from `start` to this one.
    float since(const Event& start) const {
        check(cudaEventSynchronize(mEvent), "cudaEventSynchronize");
        float result = 0.0F;
        check(cudaEventElapsedTime(&result, start.mEvent, mEvent), "cudaEventElapsedTime");
        return result;
    }

private:
    cudaEvent_t mEvent{};
};

}  // namespace

int32_t tsh_plugin_enqueue(tsh_plugin* plugin, const tsh_io* io, const tsh_buffers* buffers) {
    return guarded([&] {
        require(buffers, "the buffers are null");
        use(plugin).prepare(use(io));
        checkEnqueue(use(plugin).enqueue(*buffers));
        // A fault of the kernel shows up only here.
        check(cudaStreamSynchronize(toStream(buffers->stream)), "the kernel");
    });
}

int32_t tsh_plugin_time(tsh_plugin* plugin, const tsh_io* io, const tsh_buffers* buffers, int32_t warmup, int32_t count,
                        void* flush, size_t flushSize, float* milliseconds) {
    return guarded([&] {
        require(buffers && (count == 0 || milliseconds), "the buffers or the place for the times are null");
        use(plugin).prepare(use(io));
        const cudaStream_t stream = toStream(buffers->stream);
        for (int32_t i = 0; i < warmup; ++i) {
            checkEnqueue(use(plugin).enqueue(*buffers));
        }
        Event start;
        Event stop;
        for (int32_t i = 0; i < count; ++i) {
            if (flush) {
                check(cudaMemsetAsync(flush, i & 0xFF, flushSize, stream), "cudaMemsetAsync");
            }
            start.record(stream);
            checkEnqueue(use(plugin).enqueue(*buffers));
            stop.record(stream);
            milliseconds[i] = stop.since(start);
        }
    });
}

int32_t tsh_plugin_capture(tsh_plugin* plugin, const tsh_io* io, const tsh_buffers* buffers, void** out) {
    return guarded([&] {
        require(buffers && out, "the buffers or the place for the graph are null");
        use(plugin).prepare(use(io));
        const cudaStream_t stream = toStream(buffers->stream);
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
        const int32_t status = use(plugin).enqueue(*buffers);
        cudaGraph_t graph{};
        const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
        if (status != 0 || ended != cudaSuccess) {
            cudaGetLastError();
            throw Failure(TSH_BROKEN,
                          "enqueue returned " + std::to_string(status) +
                              " while its stream was captured into a CUDA graph, and the capture ended with " +
                              cudaGetErrorName(ended));
        }
        cudaGraphExec_t ready{};
        const cudaError_t made = cudaGraphInstantiate(&ready, graph, 0);
        cudaGraphDestroy(graph);
        check(made, "cudaGraphInstantiate");
        *out = ready;
    });
}

int32_t tsh_graph_launch(void* graph, void* stream) {
    return guarded([&] {
        check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), toStream(stream)), "cudaGraphLaunch");
        check(cudaStreamSynchronize(toStream(stream)), "the kernel in a CUDA graph");
    });
}

int32_t tsh_graph_destroy(void* graph) {
    return guarded([&] { check(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)), "cudaGraphExecDestroy"); });
}

int32_t tsh_device_count(int32_t* out) {
    return guarded([&] {
        require(out, "the place for the count is null");
        int count = 0;
        // No driver and no device are not errors here: the host works without.
        if (cudaGetDeviceCount(&count) != cudaSuccess) {
            cudaGetLastError();
            count = 0;
        }
        *out = count;
    });
}

int32_t tsh_device_describe(int32_t device, char* name, size_t capacity, int32_t* major, int32_t* minor) {
    return guarded([&] {
        require(name && capacity > 0 && major && minor, "the place for the description is null");
        cudaDeviceProp properties{};
        check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
        std::snprintf(name, capacity, "%s", properties.name);
        *major = properties.major;
        *minor = properties.minor;
    });
}

int32_t tsh_device_alloc(size_t size, void** out) {
    return guarded([&] {
        require(out, "the place for the memory is null");
        check(cudaMalloc(out, size), "cudaMalloc");
    });
}

int32_t tsh_device_free(void* memory) {
    return guarded([&] { check(cudaFree(memory), "cudaFree"); });
}

int32_t tsh_device_fill(void* memory, int32_t byte, size_t size) {
    return guarded([&] {
        check(cudaMemset(memory, byte, size), "cudaMemset");
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the plugin's stream may not wait for this one
    });
}

int32_t tsh_device_copy_in(void* device, const void* host, size_t size) {
    return guarded([&] {
        check(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice), "cudaMemcpy");
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    });
}

int32_t tsh_device_copy_out(void* host, const void* device, size_t size) {
    return guarded([&] { check(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost), "cudaMemcpy"); });
}

int32_t tsh_stream_create(void** out) {
    return guarded([&] {
        require(out, "the place for the stream is null");
        cudaStream_t stream{};
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        *out = stream;
    });
}

int32_t tsh_stream_destroy(void* stream) {
    return guarded([&] { check(cudaStreamDestroy(toStream(stream)), "cudaStreamDestroy"); });
}

int32_t tsh_stream_synchronize(void* stream) {
    return guarded([&] { check(cudaStreamSynchronize(toStream(stream)), "cudaStreamSynchronize"); });
}
