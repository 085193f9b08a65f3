#include "engine/gguf_types.h"

#include <array>

#include "actors/model_description.h"

namespace mzcache::engine {
namespace {

// Indexed by id. Holes are ids the format has withdrawn. Source: ggml's type traits.
constexpr std::array<GgufTypeInfo, 40> kTypes{{
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"q4_0", 32, 18},
    {"q4_1", 32, 20},
    {},
    {},
    {"q5_0", 32, 22},
    {"q5_1", 32, 24},
    {"q8_0", 32, 34},
    {"q8_1", 32, 36},
    {"q2_k", 256, 84},
    {"q3_k", 256, 110},
    {"q4_k", 256, 144},
    {"q5_k", 256, 176},
    {"q6_k", 256, 210},
    {"q8_k", 256, 292},
    {"iq2_xxs", 256, 66},
    {"iq2_xs", 256, 74},
    {"iq3_xxs", 256, 98},
    {"iq1_s", 256, 50},
    {"iq4_nl", 32, 18},
    {"iq3_s", 256, 110},
    {"iq2_s", 256, 82},
    {"iq4_xs", 256, 136},
    {"i8", 1, 1},
    {"i16", 1, 2},
    {"i32", 1, 4},
    {"i64", 1, 8},
    {"f64", 1, 8},
    {"iq1_m", 256, 56},
    {"bf16", 1, 2},
    {},
    {},
    {},
    {"tq1_0", 256, 54},
    {"tq2_0", 256, 66},
    {},
    {},
    {},
    {"mxfp4", 32, 17},
}};

}  // namespace

GgufTypeInfo gguf_type_info(std::uint32_t type) noexcept {
  return type < kTypes.size() ? kTypes[type] : GgufTypeInfo{};
}

std::string gguf_type_name(std::uint32_t type) {
  const char* name = gguf_type_info(type).name;
  return name != nullptr ? name : "type " + std::to_string(type);
}

std::string supported_type_names() {
  std::string names;
  for (std::uint32_t type = 0; type < kTypes.size(); ++type) {
    const auto traits = actors::tensor_type_traits(static_cast<actors::TensorType>(type));
    if (traits.block_bytes == 0) continue;
    if (!names.empty()) names += ' ';
    names += traits.name;
  }
  return names;
}

}  // namespace mzcache::engine
