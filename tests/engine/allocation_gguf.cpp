// No damaged file makes the parser take a block of memory larger than the file. Its own program,
// because it replaces operator new. Small blocks (error messages) are exempt.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "engine/gguf.h"
#include "support/gguf_builder.h"
#include "support/gguf_damage.h"

namespace {

std::size_t largest_bytes = 0;
std::size_t total_bytes = 0;

void* counted(std::size_t bytes) {
  largest_bytes = std::max(largest_bytes, bytes);
  total_bytes += bytes;
  void* block = std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace {

constexpr std::size_t kExemptBytes = 4096;

bool within_limit(const std::string& name, const std::string& bytes) {
  largest_bytes = 0;
  total_bytes = 0;
  {
    const auto file = mzcache::engine::GgufFile::parse("damaged.gguf", bytes, bytes.size());
    if (file) (void)mzcache::engine::describe_model(*file);
  }
  const std::size_t limit = std::max(bytes.size(), kExemptBytes);
  if (largest_bytes <= limit) return true;
  std::printf("FAILED: %s: a block of %zu bytes for a file of %zu\n", name.c_str(), largest_bytes,
              bytes.size());
  return false;
}

}  // namespace

int main() {
  int failures = 0;
  const auto files = mzcache::test::damaged_files();
  for (const auto& damaged : files) {
    if (!within_limit(damaged.name, damaged.bytes)) ++failures;
  }
  const std::string whole = mzcache::test::tiny_llama().bytes();
  if (!within_limit("the whole file", whole)) ++failures;
  if (total_bytes == 0) {
    std::printf("FAILED: no allocation was counted\n");
    ++failures;
  }
  std::printf("%zu files, %d above the limit\n", files.size() + 1, failures);
  return failures == 0 ? 0 : 1;
}
