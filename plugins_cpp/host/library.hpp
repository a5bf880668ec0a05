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
    // Throws Failure with the loader's words where the file cannot be loaded or offers no creators. inits, only: see
    // tsh_library_open.
    Library(const std::string& path, std::vector<std::string> inits, bool only);
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    ~Library();

    enum class Finder { kKept, kOurs, kNull };

    // What a second TensorRT, or its second registry, does with a library that is loaded already. Throws Failure where
    // the creators are not those of the first time.
    void askAgain(Finder finder);

    const char* how() const noexcept;
    std::vector<std::unique_ptr<Creator>>& creators() noexcept;

private:
    void load(const std::string& path);
    void unload() noexcept;
    bool findCreators();
    void offerLogger(nvinfer1::ILoggerFinder* finder);
    std::vector<nvinfer1::IPluginCreatorInterface*> exportedCreators();
    std::vector<nvinfer1::IPluginCreatorInterface*> initialized(const std::string& name);

    const std::vector<std::string> mInits;
    const bool mOnly;
    bool mRegistryOffered{false};
    void* mHandle{nullptr};
    const char* mHow{""};
    std::vector<nvinfer1::IPluginCreatorInterface*> mOffered;
    std::vector<std::unique_ptr<Creator>> mCreators;
};

}  // namespace trtsmith::host
