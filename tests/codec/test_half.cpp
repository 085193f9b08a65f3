#include <cmath>
#include <random>

#include "codec/half.h"
#include "support/catch.h"

using namespace mzcache::codec;

TEST_CASE("every FP16 value survives the way through FP32") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    const bool nan = (half & 0x7FFFU) > 0x7C00U;
    if (std::isnan(value) != nan) FAIL("half " << bits);
    const auto expected = static_cast<std::uint16_t>(nan ? half | 0x200U : half);
    if (float_to_half(value) != expected) FAIL("half " << bits);
  }
}

// The obvious twin: the neighbour at the smaller distance, the even one at equal distance.
TEST_CASE("FP32 rounds to the nearest FP16, ties to even") {
  constexpr std::uint64_t kSeed = 11;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 200'000; ++i) {
    const auto lower = static_cast<std::uint16_t>(random() % 0x7BFF);
    const auto upper = static_cast<std::uint16_t>(lower + 1);
    const double a = half_to_float(lower);
    const double b = half_to_float(upper);
    const double share = i % 3 == 0 ? 0.5 : static_cast<double>(random() % 4097) / 4096;
    const auto value = static_cast<float>(a + (b - a) * share);
    const double to_a = value - a;
    const double to_b = b - value;
    std::uint16_t nearest = to_a < to_b ? lower : upper;
    if (to_a == to_b) nearest = lower % 2 == 0 ? lower : upper;
    if (float_to_half(value) != nearest) FAIL("seed " << kSeed << ", value " << value);
    if (float_to_half(-value) != (nearest | 0x8000U)) FAIL("seed " << kSeed << ", " << -value);
  }
  CHECK(float_to_half(65519.0F) == 0x7BFF);
  CHECK(float_to_half(65520.0F) == 0x7C00);
  CHECK(float_to_half(1e30F) == 0x7C00);
  CHECK(float_to_half(0x1p-25F) == 0);
  CHECK(float_to_half(0x1.01p-25F) == 1);
}
