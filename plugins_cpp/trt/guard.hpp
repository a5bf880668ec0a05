// The one place where an exception becomes an error code. TensorRT's interfaces are noexcept: what gets out terminates
// the process. The library calls no logger of TensorRT (its class differs between major versions), so it says what
// went wrong on stderr.
#pragma once

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace trtsmith {

inline void logError(const char* op, const char* where, const char* what) noexcept {
    std::fprintf(stderr, "[trtsmith] %s::%s: %s\n", op, where, what);
}

template <typename R, typename F>
R guarded(const char* op, const char* where, R onError, F&& body) noexcept {
    try {
        return std::forward<F>(body)();
    } catch (const std::exception& error) {
        logError(op, where, error.what());
    } catch (...) {
        logError(op, where, "unknown exception");
    }
    return onError;
}

inline void require(bool condition, const std::string& message) {
    if (!condition) {
        throw std::runtime_error(message);
    }
}

}  // namespace trtsmith
