#include "system/system_harness.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace mzcache::test {
namespace {

Config make_config(const Settings& settings) {
  Config config;
  for (const std::string& setting : settings) config.set(setting);
  return config;
}

}  // namespace

System::System(const std::string& model, const Settings& settings)
    : runtime_(make_config(settings)),
      model_(runtime_.load(model)),
      session_(model_.open_session()) {}

std::vector<float> System::logits(std::span<const Token> tokens,
                                  std::vector<std::uint32_t> positions,
                                  std::uint32_t slice_tokens) {
  Evaluate message{session_, {tokens.begin(), tokens.end()}, std::move(positions), slice_tokens};
  return ask(std::move(message)).values;
}

std::vector<float> System::last_logits(std::span<const Token> tokens, std::uint32_t slice_tokens) {
  return logits(tokens, {static_cast<std::uint32_t>(tokens.size() - 1)}, slice_tokens);
}

EvictReport System::evict(double percent) {
  Amount amount;
  amount.percent = percent;
  return ask(Evict{amount});
}

double rms_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size() || a.empty()) throw std::invalid_argument("rows of different lengths");
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>{});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::vector<Token> made_up_tokens(std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<Token> tokens;
  std::uint32_t state = 12345;
  for (std::uint32_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    tokens.push_back(static_cast<Token>((state >> 8) % vocabulary));
  }
  return tokens;
}

std::string committed_golden() { return MZCACHE_SOURCE_DIR "/tests/golden"; }

std::string more_golden() {
  const char* directory = std::getenv("MZCACHE_GOLDEN");  // NOLINT(concurrency-mt-unsafe)
  return directory != nullptr ? directory : "";
}

}  // namespace mzcache::test
