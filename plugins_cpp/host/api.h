// C ABI of the plugin host: drives a TensorRT plugin library through its whole life without TensorRT.
//
// Every function returns a tsh_status; tsh_last_error() explains the last one of this thread that was not TSH_OK.
// Handles come from the host and go back to it: plugins are destroyed before their library is closed.
// Strings and arrays that the host hands out live until the next call on the same handle.
#ifndef TRTSMITH_HOST_API_H
#define TRTSMITH_HOST_API_H

#include <stddef.h>
#include <stdint.h>

#define TSH_ABI 3
#define TSH_MAX_DIMS 8
#define TSH_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tsh_status {
    TSH_OK = 0,
    TSH_REFUSED = 1,      // the plugin or creator answered with null, false or a code other than 0
    TSH_BROKEN = 2,       // it broke the contract: threw, left an entry unset, wrote past a buffer
    TSH_USAGE = 3,        // the caller's arguments are wrong
    TSH_UNSUPPORTED = 4,  // this kind of plugin has no such call
    TSH_CUDA = 5,         // a CUDA call failed
    TSH_LOAD = 6,         // the library cannot be loaded
    TSH_NO_CREATORS = 7   // it was loaded, and gave no plugin creators
} tsh_status;

typedef enum tsh_family { TSH_V2 = 0, TSH_V2_EXT = 1, TSH_V2_IOEXT = 2, TSH_V2_DYNAMICEXT = 3, TSH_V3 = 4 } tsh_family;

typedef struct tsh_library tsh_library;
typedef struct tsh_creator tsh_creator;
typedef struct tsh_plugin tsh_plugin;

// nvinfer1::PluginField; type is a nvinfer1::PluginFieldType.
typedef struct tsh_field {
    const char* name;
    const void* data;
    int32_t type;
    int32_t length;
} tsh_field;

typedef struct tsh_dims {
    int32_t n;  // -1: not given
    int64_t d[TSH_MAX_DIMS];
} tsh_dims;

// One input or output. dtype and format are nvinfer1::DataType and TensorFormat. min, opt and max may be "not given",
// which means dims. V2Ext and V2IOExt take dims without the batch.
typedef struct tsh_tensor {
    int32_t dtype;
    int32_t format;
    float scale;
    tsh_dims dims;
    tsh_dims min;
    tsh_dims opt;
    tsh_dims max;
} tsh_tensor;

typedef struct tsh_creator_info {
    const char* kind;  // "PLUGIN CREATOR_V1", "PLUGIN CREATOR_V3ONE", ...
    int32_t major;
    int32_t minor;
    int32_t family;  // 2 or 3; 0: a kind that this host does not know
    const char* name;
    const char* version;
    const char* plugin_namespace;
    int32_t has_fields;  // 0: getFieldNames() returned null
    int32_t field_count;
} tsh_creator_info;

typedef struct tsh_plugin_info {
    int32_t family;  // tsh_family
    int32_t has_core;
    int32_t has_build;
    int32_t has_runtime;
    int32_t build_version;     // major version of the build capability; 0 without one
    int32_t tensorrt_version;  // V2 only: version of the headers it was compiled with
    int32_t output_count;      // -1 without a build capability
    int32_t format_limit;
    const char* name;
    const char* version;
    const char* plugin_namespace;
} tsh_plugin_info;

// One dimension of an output.
typedef struct tsh_dim {
    int64_t value;        // -1: not a constant
    int64_t evaluated;    // the expression with every input dimension's value put in; -1 where one is not known;
                          // for a size tensor the value of its upper bound
    int32_t size_output;  // index of the size tensor output that holds this dimension; -1: none
    const char* text;     // the expression, for example "floor_div(i0.d2, 2)"
} tsh_dim;

typedef struct tsh_shape {
    int32_t n;
    tsh_dim d[TSH_MAX_DIMS];
} tsh_shape;

// The inputs and outputs of one call.
typedef struct tsh_io {
    const tsh_tensor* inputs;
    int32_t input_count;
    const tsh_tensor* outputs;
    int32_t output_count;
    int32_t batch;  // V2Ext and V2IOExt: batch size or its maximum; others ignore it
} tsh_io;

// Device pointers of one enqueue.
typedef struct tsh_buffers {
    const void* const* inputs;
    void* const* outputs;
    void* workspace;
    void* stream;
} tsh_buffers;

TSH_API int32_t tsh_abi(void);
TSH_API const char* tsh_last_error(void);
TSH_API const char* tsh_take_log(void);  // what plugins logged since the last call

// inits: names of functions bool(void* logger, const char* namespace) that register a library's creators. The first that
// the library exports is called where it offers none otherwise, or, with `only`, in place of everything else.
TSH_API int32_t tsh_library_open(const char* path, const char* const* inits, int32_t init_count, int32_t only,
                                 tsh_library** out);
TSH_API int32_t tsh_library_close(tsh_library* library);
TSH_API int32_t tsh_library_how(tsh_library* library, const char** out);  // through what it offers its creators
TSH_API int32_t tsh_library_creator_count(tsh_library* library, int32_t* out);
TSH_API int32_t tsh_library_creator(tsh_library* library, int32_t index, tsh_creator** out);

// Offers a logger finder again (finder: 0 none, 1 the host's, 2 null), then asks for the creators again, which must be
// the same. TSH_UNSUPPORTED for a library that registered them by itself.
TSH_API int32_t tsh_library_ask_again(tsh_library* library, int32_t finder);

TSH_API int32_t tsh_creator_describe(tsh_creator* creator, tsh_creator_info* out);
TSH_API int32_t tsh_creator_field(tsh_creator* creator, int32_t index, tsh_field* out);
// phase: 0 build, 1 runtime. V2 creators ignore it.
TSH_API int32_t tsh_creator_create(tsh_creator* creator, const char* layer, const tsh_field* fields, int32_t count,
                                   int32_t phase, tsh_plugin** out);
TSH_API int32_t tsh_creator_deserialize(tsh_creator* creator, const char* layer, const void* data, size_t size,
                                        tsh_plugin** out);  // V2

TSH_API int32_t tsh_plugin_destroy(tsh_plugin* plugin);
TSH_API int32_t tsh_plugin_describe(tsh_plugin* plugin, tsh_plugin_info* out);
TSH_API int32_t tsh_plugin_clone(tsh_plugin* plugin, tsh_plugin** out);
TSH_API int32_t tsh_plugin_attach(tsh_plugin* plugin, tsh_plugin** out);
TSH_API int32_t tsh_plugin_set_namespace(tsh_plugin* plugin, const char* plugin_namespace);  // V2
TSH_API int32_t tsh_plugin_initialize(tsh_plugin* plugin);                                   // V3: does nothing
TSH_API int32_t tsh_plugin_terminate(tsh_plugin* plugin);                                    // V3: does nothing

TSH_API int32_t tsh_plugin_output_types(tsh_plugin* plugin, const int32_t* inputs, int32_t input_count,
                                        int32_t* outputs, int32_t output_count);
// inputs: shapes, -1 for a dimension whose value is not known. symbolic: a bit mask for each input of the dimensions
// that the plugin sees as unknown though their value is known (null: none). shape_inputs: values of shape tensors.
TSH_API int32_t tsh_plugin_output_shapes(tsh_plugin* plugin, const tsh_dims* inputs, const uint32_t* symbolic,
                                         int32_t input_count, const tsh_dims* shape_inputs, int32_t shape_input_count,
                                         tsh_shape* outputs, int32_t output_count);
TSH_API int32_t tsh_plugin_supports_format(tsh_plugin* plugin, int32_t position, const tsh_io* io, int32_t* answer);
TSH_API int32_t tsh_plugin_configure(tsh_plugin* plugin, const tsh_io* io);
TSH_API int32_t tsh_plugin_workspace(tsh_plugin* plugin, const tsh_io* io, size_t* out);
TSH_API int32_t tsh_plugin_aliased_input(tsh_plugin* plugin, int32_t output, int32_t* input);  // -1: none
TSH_API int32_t tsh_plugin_tactics(tsh_plugin* plugin, int32_t* tactics, int32_t capacity, int32_t* count);
TSH_API int32_t tsh_plugin_set_tactic(tsh_plugin* plugin, int32_t tactic);
TSH_API int32_t tsh_plugin_timing_cache_id(tsh_plugin* plugin, const char** out);  // null: none
TSH_API int32_t tsh_plugin_metadata(tsh_plugin* plugin, const char** out);         // null: none

TSH_API int32_t tsh_plugin_serialize_fields(tsh_plugin* plugin, const tsh_field** out, int32_t* count);  // V3
// fill: what the buffer holds before the plugin writes it, so that two calls show bytes that it leaves unset.
TSH_API int32_t tsh_plugin_serialize_bytes(tsh_plugin* plugin, int32_t fill, const void** data, size_t* size);  // V2

TSH_API int32_t tsh_plugin_on_shape_change(tsh_plugin* plugin, const tsh_io* io);  // V2: does nothing
TSH_API int32_t tsh_plugin_enqueue(tsh_plugin* plugin, const tsh_io* io, const tsh_buffers* buffers);
// Times `count` enqueues one by one, after `warmup` others, in milliseconds. flush: device memory that is overwritten
// before each of them, to empty the cache; null: none.
TSH_API int32_t tsh_plugin_time(tsh_plugin* plugin, const tsh_io* io, const tsh_buffers* buffers, int32_t warmup,
                                int32_t count, void* flush, size_t flush_size, float* milliseconds);

// Captures one enqueue into a CUDA graph. The plugin has to have been enqueued before: the first launch of a kernel loads
// it, which a capture does not allow.
TSH_API int32_t tsh_plugin_capture(tsh_plugin* plugin, const tsh_io* io, const tsh_buffers* buffers, void** graph);
TSH_API int32_t tsh_graph_launch(void* graph, void* stream);  // and waits
TSH_API int32_t tsh_graph_destroy(void* graph);

TSH_API int32_t tsh_device_count(int32_t* out);  // 0 without a driver or a GPU
TSH_API int32_t tsh_device_describe(int32_t device, char* name, size_t capacity, int32_t* major, int32_t* minor);
TSH_API int32_t tsh_device_alloc(size_t size, void** out);
TSH_API int32_t tsh_device_free(void* memory);
TSH_API int32_t tsh_device_fill(void* memory, int32_t byte, size_t size);
TSH_API int32_t tsh_device_copy_in(void* device, const void* host, size_t size);
TSH_API int32_t tsh_device_copy_out(void* host, const void* device, size_t size);
TSH_API int32_t tsh_stream_create(void** out);
TSH_API int32_t tsh_stream_destroy(void* stream);
TSH_API int32_t tsh_stream_synchronize(void* stream);

#ifdef __cplusplus
}
#endif

#endif
