// Expectations of the test programs: printed where they fail, and counted for the exit code.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

namespace expecting {

inline int& failures() {
    static int count = 0;
    return count;
}

inline void expect(bool good, const std::string& what) {
    if (!good) {
        std::printf("wrong: %s\n", what.c_str());
        ++failures();
    }
}

// `body` throws, and says `words`.
template <typename Body>
void expectFailure(const std::string& words, Body&& body) {
    try {
        body();
        expect(false, "no failure: " + words);
    } catch (const std::exception& failure) {
        expect(std::string(failure.what()).find(words) != std::string::npos, failure.what());
    }
}

inline int exitCode() { return failures() == 0 ? 0 : 1; }

}  // namespace expecting
