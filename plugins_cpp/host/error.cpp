#include "error.hpp"

namespace trtsmith::host {
namespace {
thread_local std::string gLastError;
}

void setLastError(std::string text) noexcept { gLastError = std::move(text); }

const char* lastError() noexcept { return gLastError.c_str(); }

}  // namespace trtsmith::host
