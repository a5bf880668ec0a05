// The C ABI: version, messages, libraries and creators.
#include "handles.hpp"
#include "log.hpp"

using namespace trtsmith::host;

int32_t tsh_abi(void) { return TSH_ABI; }

const char* tsh_last_error(void) { return lastError(); }

const char* tsh_take_log(void) {
    thread_local std::string text;
    text = takeLog();
    return text.c_str();
}

int32_t tsh_library_open(const char* path, const char* const* inits, int32_t initCount, int32_t only,
                         tsh_library** out) {
    return guarded([&] {
        require(path && out, "the path or the place for the library handle is null");
        require(initCount >= 0 && (initCount == 0 || inits), "the list of functions is null");
        require(!only || initCount == 1, "not one function alone");
        *out = new tsh_library(path, {inits, inits + initCount}, only != 0);
    });
}

int32_t tsh_library_close(tsh_library* library) {
    return guarded([&] { delete library; });
}

int32_t tsh_library_how(tsh_library* library, const char** out) {
    return guarded([&] {
        require(library && out, "the library handle is null");
        *out = library->library.how();
    });
}

int32_t tsh_library_creator_count(tsh_library* library, int32_t* out) {
    return guarded([&] {
        require(library && out, "the library handle is null");
        *out = static_cast<int32_t>(library->creators.size());
    });
}

int32_t tsh_library_creator(tsh_library* library, int32_t index, tsh_creator** out) {
    return guarded([&] {
        require(library && out, "the library handle is null");
        require(index >= 0 && static_cast<size_t>(index) < library->creators.size(), "no creator of this index");
        *out = &library->creators[static_cast<size_t>(index)];
    });
}

int32_t tsh_library_ask_again(tsh_library* library, int32_t finder) {
    return guarded([&] {
        require(library, "the library handle is null");
        require(finder >= 0 && finder <= 2, "no logger finder of this number");
        library->library.askAgain(static_cast<Library::Finder>(finder));
    });
}

int32_t tsh_creator_describe(tsh_creator* creator, tsh_creator_info* out) {
    return guarded([&] {
        require(creator && out, "the creator handle is null");
        *out = creator->creator->describe();
    });
}

int32_t tsh_creator_field(tsh_creator* creator, int32_t index, tsh_field* out) {
    return guarded([&] {
        require(creator && out, "the creator handle is null");
        *out = creator->creator->field(index);
    });
}

int32_t tsh_creator_create(tsh_creator* creator, const char* layer, const tsh_field* fields, int32_t count,
                           int32_t phase, tsh_plugin** out) {
    return guarded([&] {
        require(creator, "the creator handle is null");
        give(creator->creator->create(layer, fields, count, phase), out);
    });
}

int32_t tsh_creator_deserialize(tsh_creator* creator, const char* layer, const void* data, size_t size,
                                tsh_plugin** out) {
    return guarded([&] {
        require(creator, "the creator handle is null");
        give(creator->creator->deserialize(layer, data, size), out);
    });
}
