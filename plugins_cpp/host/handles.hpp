// The objects behind the opaque handles of the C ABI.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "library.hpp"

struct tsh_creator {
    trtsmith::host::Creator* creator;
};

struct tsh_library {
    tsh_library(const char* path, std::vector<std::string> inits, bool only) : library(path, std::move(inits), only) {
        for (auto& creator : library.creators()) {
            creators.push_back({creator.get()});
        }
    }

    trtsmith::host::Library library;
    std::vector<tsh_creator> creators;
};

// The plugin and what was last handed out from it.
struct tsh_plugin {
    std::unique_ptr<trtsmith::host::Plugin> plugin;
    trtsmith::host::ShapeAnswer shapes;
    std::vector<tsh_field> fields;
    std::vector<unsigned char> bytes;
};

namespace trtsmith::host {

inline Plugin& use(tsh_plugin* handle) {
    require(handle && handle->plugin, "the plugin handle is null");
    return *handle->plugin;
}

inline void give(std::unique_ptr<Plugin> plugin, tsh_plugin** out) {
    require(out, "the place for the plugin handle is null");
    *out = new tsh_plugin{std::move(plugin), {}, {}, {}};
}

inline const tsh_io& use(const tsh_io* io) {
    require(io && io->input_count >= 0 && io->output_count >= 0, "the description of inputs and outputs is null");
    return *io;
}

}  // namespace trtsmith::host
