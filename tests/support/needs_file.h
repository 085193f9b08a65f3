// Skips a whole test program: it prints SKIPPED and returns 77, which ctest shows as skipped. Done
// before main because the test framework owns main.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace mzcache::test {

// True where the file is there; else the process ends. `fetched_by`: the command that fetches it.
inline bool skip_without(const std::string& path, const char* fetched_by) {
  if (std::ifstream(path).good()) return true;
  std::printf("SKIPPED: no model at %s (%s fetches it)\n", path.c_str(), fetched_by);
  std::fflush(stdout);
  std::_Exit(77);
}

}  // namespace mzcache::test
