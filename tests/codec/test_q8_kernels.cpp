// The q8 kernels alone: every variant against the scalar reference, and the fixed point.
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "codec/chunk_data.h"
#include "codec/half.h"
#include "codec/q8_kernels.h"
#include "support/catch.h"

using namespace mzcache::codec;
using namespace mzcache::codec::test;

namespace {

constexpr std::size_t kValues = std::size_t{kGroupValues} * kLanes;

struct Lanes {
  std::array<std::byte, 2 * kLanes> near_values{};
  std::array<std::byte, 2 * kLanes> far_values{};
  std::array<std::byte, kValues> codes{};
  friend bool operator==(const Lanes&, const Lanes&) = default;
};

bool encode(const Q8Kernels& kernels, const std::vector<std::uint16_t>& values, bool rows,
            Lanes& out, float top = 255.0F) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  if (rows) {
    return kernels.encode_rows(bytes, bytes + 2 * kLanes, 2 * kGroupValues, kLanes,
                               out.near_values.data(), out.far_values.data(), out.codes.data(),
                               top);
  }
  return kernels.encode_lanes(bytes, kGroupValues, out.near_values.data(), out.far_values.data(),
                              out.codes.data(), top);
}

std::vector<std::uint16_t> decode(const Q8Kernels& kernels, const Lanes& lanes, bool rows,
                                  float top = 255.0F) {
  std::vector<std::uint16_t> values(kValues);
  auto* bytes = reinterpret_cast<std::byte*>(values.data());
  if (rows) {
    kernels.decode_rows(lanes.codes.data(), kLanes, lanes.near_values.data(),
                        lanes.far_values.data(), bytes, bytes + 2 * kLanes, 2 * kGroupValues, false,
                        top);
  } else {
    kernels.decode_lanes(lanes.codes.data(), kGroupValues, lanes.near_values.data(),
                         lanes.far_values.data(), bytes, false, top);
  }
  return values;
}

std::vector<const Q8Kernels*> variants() {
  std::array<const Q8Kernels*, 4> found{};
  const std::size_t count = q8_kernel_variants(found.data());
  return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

TEST_CASE("finite groups have stable codes, and every variant finds the reference's") {
  constexpr std::uint64_t kSeed = 2026;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    const Data data = kAllData[static_cast<std::size_t>(round) % std::size(kAllData)];
    const bool rows = random() % 2 == 0;
    const float top = random() % 2 == 0 ? 255.0F : 15.0F;
    CAPTURE(kSeed, round, rows, top);
    const auto values = make_values(data, kValues, rows ? kGroupValues : kLanes, random);
    Lanes reference;
    REQUIRE(encode(kQ8Scalar, values, rows, reference, top));
    const auto decoded = decode(kQ8Scalar, reference, rows, top);
    Lanes again;
    REQUIRE(encode(kQ8Scalar, decoded, rows, again, top));
    REQUIRE(again == reference);
    for (const Q8Kernels* kernels : variants()) {
      CAPTURE(kernels->name);
      Lanes mine;
      if (encode(*kernels, values, rows, mine, top)) REQUIRE(mine == reference);
      REQUIRE(decode(*kernels, reference, rows, top) == decoded);
      // Decoded data is at its fixed point: no variant may need the reference's help.
      REQUIRE(encode(*kernels, decoded, rows, mine, top));
      REQUIRE(mine == reference);
    }
  }
}

TEST_CASE("all values between two ends, for random and extreme ends") {
  constexpr std::uint64_t kSeed = 77;
  std::mt19937_64 random(kSeed);
  const Q8Kernels& kernels = q8_kernels();
  for (int round = 0; round < 2'000; ++round) {
    // Every lane has its own pair of ends; the rows are FP16 values between them.
    std::vector<std::uint16_t> values(kValues);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float a = half_to_float(static_cast<std::uint16_t>(random() & 0xFBFFU));
      const float b = random() % 2 == 0
                          ? half_to_float(static_cast<std::uint16_t>(random() & 0xFBFFU))
                          : a + static_cast<float>(random() % 512) *
                                    std::max(std::fabs(a), 0x1p-14F) * 0x1p-11F;
      const float end = std::fabs(b) > 65504.0F ? -a : b;
      for (std::size_t row = 0; row < kGroupValues; ++row) {
        const auto share = static_cast<float>(random() % 1021) / 1020.0F;
        values[row * kLanes + lane] =
            float_to_half(row == 0 ? a : (row == 1 ? end : a + (end - a) * share));
      }
    }
    Lanes first;
    if (!encode(kernels, values, false, first)) REQUIRE(encode(kQ8Scalar, values, false, first));
    Lanes again;
    const auto decoded = decode(kernels, first, false);
    CAPTURE(kSeed, round);
    REQUIRE(encode(kernels, decoded, false, again));
    REQUIRE(again == first);
  }
}

TEST_CASE("no variant takes Inf or NaN for a number") {
  std::mt19937_64 random(5);
  for (const unsigned bad : {0x7C00U, 0xFC00U, 0x7C01U, 0x7E00U, 0xFFFFU}) {
    for (const bool rows : {false, true}) {
      for (int round = 0; round < 40; ++round) {
        auto values = make_values(Data::kNormal, kValues, kLanes, random);
        values[random() % kValues] = static_cast<std::uint16_t>(bad);
        if (round == 0) values.assign(kValues, static_cast<std::uint16_t>(bad));
        for (const Q8Kernels* kernels : variants()) {
          Lanes out;
          CAPTURE(kernels->name, bad, rows, round);
          REQUIRE_FALSE(encode(*kernels, values, rows, out));
        }
      }
    }
  }
}
