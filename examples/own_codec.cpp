// A codec of one's own for evicted keys and values: FP16 with its last eight bits of fraction cut
// off, which halves a chunk. Compiled and run with everything else; it prints what it saved.
//
//   own_codec MODEL.gguf
#include <mzcache/codec.h>
#include <mzcache/runtime.h>

#include <asio/use_future.hpp>
#include <exception>
#include <iostream>
#include <memory>

namespace {

// The upper byte of each value: sign, exponent, two bits of fraction.
class UpperBytes final : public mzcache::Codec {
 public:
  [[nodiscard]] std::uint16_t version() const noexcept override { return 1; }
  [[nodiscard]] bool lossless() const noexcept override { return false; }

  [[nodiscard]] std::size_t encode(const mzcache::KvBlock& block,
                                   std::span<std::byte> out) const override {
    const std::size_t count = block.keys.size();
    if (out.size() < 2 * count) return 0;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = static_cast<std::byte>(block.keys[i] >> 8);
      out[count + i] = static_cast<std::byte>(block.values[i] >> 8);
    }
    return 2 * count;
  }

  [[nodiscard]] bool decode(std::span<const std::byte> bytes,
                            const mzcache::MutableKvBlock& block) const override {
    const std::size_t count = block.keys.size();
    if (bytes.size() != 2 * count) return false;
    for (std::size_t i = 0; i < count; ++i) {
      block.keys[i] = static_cast<std::uint16_t>(static_cast<unsigned>(bytes[i]) << 8);
      block.values[i] = static_cast<std::uint16_t>(static_cast<unsigned>(bytes[count + i]) << 8);
    }
    return true;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: own_codec MODEL.gguf\n";
    return 2;
  }
  try {
    mzcache::add_codec("upper-bytes", [](std::string_view parameter) {
      return parameter.empty() ? std::make_shared<const UpperBytes>() : nullptr;
    });
    mzcache::Config config;
    config.set("memory.codec=upper-bytes");
    config.set("policy.paths=memory");
    mzcache::Runtime runtime(config);
    const auto session = runtime.load(argv[1]).open_session();
    mzcache::Generate question{session, "Name three colours.", {.max_tokens = 40}, {}};
    std::cout << runtime.send(question, asio::use_future).get().text << "\n";

    const mzcache::Evict everything{mzcache::Amount{.percent = 100}};
    const auto evicted = runtime.send(everything, asio::use_future).get();
    std::cout << "[" << evicted.bytes_encoded << " bytes of keys and values in "
              << evicted.bytes_compressed << "]\n";
    question.prompt = "And one more.";
    std::cout << runtime.send(question, asio::use_future).get().text << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
