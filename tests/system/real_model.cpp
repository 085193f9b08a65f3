#include "system/real_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "system/system_harness.h"

namespace mzcache::test {
namespace {

constexpr double kTop20RmsMax = 0.05;
constexpr double kMomentsMax = 0.02;
constexpr double kClearGap = 0.1;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>{}};
}

// The text itself, or a stretch of a file that every Debian has, between a prefix and a suffix.
std::string text_of(const nlohmann::json& expected) {
  if (expected.contains("text")) return expected.at("text").get<std::string>();
  const std::string whole = read_text(expected.at("file").get<std::string>());
  // Positions count characters; only where these are bytes is a substring the same.
  REQUIRE(std::all_of(whole.begin(), whole.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  const auto from = expected.at("from").get<std::size_t>();
  const auto to = expected.at("to").get<std::size_t>();
  return expected.value("prefix", "") + whole.substr(from, to - from) +
         expected.value("suffix", "");
}

void check_top20(const nlohmann::json& expected, const std::vector<float>& logits) {
  double sum = 0;
  const auto& top = expected.at("top20");
  REQUIRE(top.size() == 20);
  for (const auto& entry : top) {
    const double difference =
        static_cast<double>(logits.at(entry.at(0).get<std::size_t>())) - entry.at(1).get<double>();
    sum += difference * difference;
  }
  CHECK(std::sqrt(sum / 20.0) <= kTop20RmsMax);
}

void check_moments(const nlohmann::json& expected, const std::vector<float>& logits) {
  double sum = 0;
  double squares = 0;
  for (const float value : logits) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = static_cast<double>(logits.size());
  const double mean = sum / count;
  CHECK(mean == Approx(expected.at("logits_mean").get<double>()).margin(kMomentsMax));
  CHECK(std::sqrt(squares / count - mean * mean) ==
        Approx(expected.at("logits_std").get<double>()).margin(kMomentsMax));
}

Token argmax(const std::vector<float>& logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// At every step with a clear gap the argmax is the expected token, with the expected ones fed so
// far.
void check_continuation(System& system, const nlohmann::json& expected, std::vector<float> logits) {
  const auto greedy = expected.at("greedy").get<std::vector<Token>>();
  const auto gaps = expected.at("gap").get<std::vector<double>>();
  REQUIRE(greedy.size() == gaps.size());
  for (std::size_t step = 0; step < greedy.size(); ++step) {
    INFO("step " << step << ", gap " << gaps[step]);
    if (gaps[step] >= kClearGap) CHECK(argmax(logits) == greedy[step]);
    if (step + 1 < greedy.size()) logits = system.last_logits({&greedy[step], 1});
  }
}

void check_case(System& system, const nlohmann::json& expected) {
  INFO(expected.at("name").get<std::string>());
  const auto tokens = expected.at("tokens").get<std::vector<Token>>();
  CHECK(system.model().tokenize(text_of(expected)) == tokens);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<float> logits = system.last_logits(tokens);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%-14s %5zu tokens, %7.1f tokens/s with what had to be restored\n",
              expected.at("name").get<std::string>().c_str(), tokens.size(),
              static_cast<double>(tokens.size()) / took.count());
  check_top20(expected, logits);
  check_moments(expected, logits);
  check_continuation(system, expected, logits);
}

}  // namespace

std::size_t check_real_model(const std::string& model, const std::string& expectations) {
  const auto cases =
      nlohmann::json::parse(read_text(more_golden() + "/real/" + expectations + ".json"));
  System system(model, {"device.activations=float"});
  std::size_t longest = 0;
  for (const auto& expected : cases) {
    check_case(system, expected);
    longest = std::max(longest, expected.at("tokens").size());
    system.reset();
  }
  return longest;
}

}  // namespace mzcache::test
