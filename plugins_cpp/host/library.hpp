// A plugin library that is open, its creators, and making plugins with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin.hpp"

namespace trtsmith::host {

class Creator {
public:
    explicit Creator(nvinfer1::IPluginCreatorInterface* creator);

    tsh_creator_info describe();
    tsh_field field(int32_t index);
    std::unique_ptr<Plugin> create(const char* layer, const tsh_field* fields, int32_t count, int32_t phase);
    std::unique_ptr<Plugin> deserialize(const char* layer, const void* data, size_t size);

private:
    const nvinfer1::PluginFieldCollection* fieldNames();

    nvinfer1::IPluginCreatorV3One* mV3{nullptr};
    nvinfer1::IPluginCreator* mV2{nullptr};
    nvinfer1::InterfaceInfo mInfo;
};

class Library {
public:
    // Throws Failure with the loader's words where the file cannot be loaded or offers no creators.
    explicit Library(const std::string& path);
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    ~Library();

    const char* how() const noexcept;
    std::vector<std::unique_ptr<Creator>>& creators() noexcept;

private:
    void load(const std::string& path);
    void unload() noexcept;
    bool findCreators();

    void* mHandle{nullptr};
    const char* mHow{""};
    std::vector<std::unique_ptr<Creator>> mCreators;
};

}  // namespace trtsmith::host
