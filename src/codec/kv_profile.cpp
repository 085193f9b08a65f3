#include "codec/kv_profile.h"

#include <xxhash.h>

#include <cmath>
#include <string>

#include "codec/byte_stream.h"
#include "codec/half.h"

namespace mzcache::codec {
namespace {

constexpr std::uint32_t kMagic = 0x504B5A4DU;  // "MZKP"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kLayersMax = 4096;
constexpr std::uint32_t kWidthMax = 1U << 20;

struct FileHead {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint64_t model = 0;
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t tokens = 0;
};
using Checksum = std::uint64_t;

// In the order of the file.
constexpr std::vector<float> LayerProfile::* kFields[] = {
    &LayerProfile::k_mean, &LayerProfile::k_sigma, &LayerProfile::query_energy,
    &LayerProfile::v_mean, &LayerProfile::v_sigma};

// Energies span more than FP16 does.
float to_file(std::vector<float> LayerProfile::* field, float value) {
  if (field != &LayerProfile::query_energy) return value;
  return std::log2(std::max(value, 1e-30F));
}
float from_file(std::vector<float> LayerProfile::* field, float value) {
  return field == &LayerProfile::query_energy ? std::exp2(value) : value;
}

}  // namespace

std::vector<std::byte> serialise(const KvProfile& profile) {
  const std::size_t width = std::size_t{profile.kv_heads} * profile.head_dim;
  std::vector<std::byte> bytes(
      sizeof(FileHead) + profile.layers.size() * std::size(kFields) * width * 2 + sizeof(Checksum));
  ByteWriter out(bytes);
  out.put(FileHead{kMagic, kVersion, profile.model,
                   static_cast<std::uint32_t>(profile.layers.size()), profile.kv_heads,
                   profile.head_dim, profile.tokens});
  for (const LayerProfile& layer : profile.layers) {
    for (const auto field : kFields) {
      for (const float value : layer.*field) out.put(float_to_half(to_file(field, value)));
    }
  }
  out.put<Checksum>(XXH3_64bits(bytes.data(), out.used()));
  return bytes;
}

Result<KvProfile> deserialise(std::span<const std::byte> bytes, std::string_view file) {
  const auto bad = [&](ErrorCode code, std::string context) {
    return Error{code, 0, "codec profile " + std::string(file), std::move(context)};
  };
  ByteReader in(bytes);
  const auto head = in.get<FileHead>();
  if (!in.ok() || head.magic != kMagic) return bad(ErrorCode::kBadFormat, "not a codec profile");
  if (head.version != kVersion) {
    return bad(ErrorCode::kBadFormat, "version " + std::to_string(head.version) + ", expected " +
                                          std::to_string(kVersion));
  }
  const std::uint64_t width = std::uint64_t{head.kv_heads} * head.head_dim;
  if (head.layers == 0 || head.layers > kLayersMax || width == 0 || width > kWidthMax ||
      in.left() != head.layers * std::size(kFields) * width * 2 + sizeof(Checksum)) {
    return bad(ErrorCode::kBadFormat, "layers, kv_heads and head_dim do not fit its size");
  }
  const Checksum found = XXH3_64bits(bytes.data(), bytes.size() - sizeof(Checksum));
  ByteReader tail(bytes.last(sizeof(Checksum)));
  if (tail.get<Checksum>() != found) return bad(ErrorCode::kChecksum, "damaged");
  KvProfile profile;
  profile.model = head.model;
  profile.kv_heads = head.kv_heads;
  profile.head_dim = head.head_dim;
  profile.tokens = head.tokens;
  profile.layers.resize(head.layers);
  for (LayerProfile& layer : profile.layers) {
    for (const auto field : kFields) {
      (layer.*field).reserve(width);
      for (std::uint64_t c = 0; c < width; ++c) {
        const float value = from_file(field, half_to_float(in.get<std::uint16_t>()));
        if (!std::isfinite(value)) return bad(ErrorCode::kBadFormat, "a value is not finite");
        (layer.*field).push_back(value);
      }
    }
  }
  profile.id = static_cast<std::uint32_t>(found) | 1U;
  return profile;
}

}  // namespace mzcache::codec
