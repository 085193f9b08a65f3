#include "synth/vocabulary.h"

#include <string_view>

namespace mzcache::synth {
namespace {

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;
constexpr std::string_view kSpace = "\xC4\xA0";  // U+0120, what stands for a space

std::string utf8(std::uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's table: printable bytes stand for themselves, the others for U+0100 and on, in order.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    tokens.push_back(utf8(printable ? byte : next++));
  }
  return tokens;
}

struct Family {
  std::vector<std::string> specials;
  std::string_view bos, eos, end_of_turn;
  bool add_bos;
  std::string_view chat_template;
};

Family family_of(ChatFamily chat) {
  switch (chat) {
    case ChatFamily::kChatMl:
      return {{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
              "<|endoftext|>",
              "<|im_end|>",
              "<|im_end|>",
              false,
              "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
              "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"};
    case ChatFamily::kLlama3:
      return {{"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
               "<|eom_id|>", "<|eot_id|>"},
              "<|begin_of_text|>",
              "<|eot_id|>",
              "<|eot_id|>",
              true,
              "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + "
              "message['role'] + '<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}"
              "{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"};
    case ChatFamily::kGemma:
      return {{"<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"},
              "<bos>",
              "<eos>",
              "<end_of_turn>",
              true,
              "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + (message['role'] "
              "if message['role'] != 'assistant' else 'model') + '\\n' + message['content'] + "
              "'<end_of_turn>\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"};
    case ChatFamily::kExaone:
      return {{"[PAD]", "[BOS]", "[EOS]", "[UNK]", "[|system|]", "[|user|]", "[|assistant|]",
               "[|endofturn|]"},
              "[BOS]",
              "[|endofturn|]",
              "[|endofturn|]",
              false,
              "{% for message in messages %}{{ '[|' + message['role'] + '|]\\n' + "
              "message['content'] + '[|endofturn|]\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '[|assistant|]\\n' }}{% endif %}"};
  }
  return {};
}

// Pieces in breadth: all of two letters, then of three, … Each is an earlier piece and a letter, so
// all differ, and the merges in this order rebuild each of them.
void add_pieces(Vocabulary& vocabulary, std::uint32_t count) {
  std::vector<std::string> stems = {std::string(kSpace)};
  for (char letter = 'a'; letter <= 'z'; ++letter) stems.emplace_back(1, letter);
  while (true) {
    std::vector<std::string> longer;
    for (const std::string& stem : stems) {
      for (char letter = 'a'; letter <= 'z'; ++letter) {
        if (vocabulary.merges.size() == count) return;
        longer.push_back(stem + letter);
        vocabulary.merges.push_back(stem + ' ' + letter);
        vocabulary.tokens.push_back(longer.back());
      }
    }
    stems = std::move(longer);
  }
}

}  // namespace

Vocabulary make_vocabulary(ChatFamily chat, std::uint32_t size) {
  const Family family = family_of(chat);
  Vocabulary vocabulary;
  vocabulary.tokens = byte_tokens();
  add_pieces(vocabulary, size - 256 - static_cast<std::uint32_t>(family.specials.size()));
  vocabulary.types.assign(vocabulary.tokens.size(), kNormal);
  for (const std::string& special : family.specials) {
    const auto id = static_cast<std::uint32_t>(vocabulary.tokens.size());
    if (special == family.bos) vocabulary.bos = id;
    if (special == family.eos) vocabulary.eos = id;
    if (special == family.end_of_turn) vocabulary.end_of_turn = id;
    vocabulary.tokens.push_back(special);
    vocabulary.types.push_back(kControl);
  }
  vocabulary.add_bos = family.add_bos;
  vocabulary.chat_template = family.chat_template;
  return vocabulary;
}

}  // namespace mzcache::synth
