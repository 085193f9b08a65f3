#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "gpu/layer_recipe.h"
#include "gpu/reference_model.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::test;
using actors::LayerStage;

namespace {

std::vector<std::uint32_t> random_tokens(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::uint32_t>(random() % 80);
  return tokens;
}

std::vector<std::uint32_t> every_position(std::size_t count) {
  std::vector<std::uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0U);
  return positions;
}

// Largest RMS difference of a row, relative to the row's own size.
double worst_row(const std::vector<std::vector<float>>& found,
                 const std::vector<std::vector<double>>& wanted) {
  if (found.size() != wanted.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double difference = 0;
    double size = 0;
    for (std::size_t v = 0; v < wanted[i].size(); ++v) {
      const double off = double{found[i][v]} - wanted[i][v];
      difference += off * off;
      size += wanted[i][v] * wanted[i][v];
    }
    const double relative = std::sqrt(difference / size);
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

std::vector<std::byte> kv_bytes(Forward& forward, std::uint32_t layer) {
  const auto unit = actors::kv_unit(0, layer, 0);
  forward.memory().begin_host_access(unit);
  const auto bytes = forward.memory().bytes(unit);
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  forward.memory().end_host_access(unit);
  return copy;
}

}  // namespace

TEST_CASE("every option of a layer agrees with the slow forward pass") {
  const std::uint64_t seed = 51;
  INFO("seed " << seed);
  const auto tokens = random_tokens(45, seed);
  const auto [name, options] = GENERATE(table<std::string, ModelOptions>(
      {{"plain", {}},
       {"q8_0, one KV head", {.type = actors::TensorType::kQ8_0, .kv_heads = 1}},
       {"no grouping, narrow heads", {.head_dim = 16, .heads = 2, .kv_heads = 2}},
       {"head norms, split halves", {.head_norms = true, .split_halves = true}},
       {"biases", {.biases = true}},
       {"norms behind only, some layers without RoPE",
        {.norms_before = false, .norms_behind = true, .rope_every_layer = false}},
       {"all norms, GELU, caps, window",
        {.norms_behind = true,
         .gelu = true,
         .split_halves = true,
         .window = 9,
         .windowed_rope_base = 300,
         .attention_softcap = 5,
         .logit_softcap = 3,
         .embedding_scale = 8}}}));
  const auto batch = GENERATE(1U, 6U, 20U, 45U);
  INFO(name << ", batch " << batch);
  const auto model = make_random_model(options, seed);
  Forward forward(model);
  CHECK(worst_row(forward.logits(tokens, batch, every_position(tokens.size())),
                  reference_logits(model, tokens)) < 1e-2);
}

TEST_CASE("the same slices give the same bits, however the stages are enqueued") {
  const auto model = make_random_model({}, 52);
  const auto tokens = random_tokens(620, 52);
  const std::vector<std::uint32_t> positions = {0, 255, 256, 299, 511, 512, 599, 600, 607, 619};
  const std::vector<std::uint32_t> cuts = {300, 300, 8, 1, 11};
  // One stage at a time, waited for; or all at once.
  const auto run = [&](bool waiting, const Setting& setting) {
    Forward forward(model, setting);
    std::vector<std::vector<float>> out;
    std::uint64_t ticket = 1;
    std::uint32_t first = 0;
    for (const std::uint32_t count : cuts) {
      const auto slice = forward.slice(tokens, first, count, positions);
      first += count;
      if (waiting) {
        forward.grow(0, first);
        REQUIRE(forward.queue().begin_slice(slice));
        for (std::uint32_t layer = 0; layer < forward.description().layers; ++layer) {
          for (const auto stage : {LayerStage::kProject, LayerStage::kAttend}) {
            REQUIRE(forward.queue().enqueue_layer(layer, stage, ticket));
            forward.queue().flush();
            (void)forward.wait(ticket++);
          }
        }
        REQUIRE(forward.queue().enqueue_head(ticket));
        forward.queue().flush();
        (void)forward.wait(ticket++);
      } else {
        (void)forward.compute(slice);
      }
      for (std::size_t row = 0; row < slice.logit_rows.size(); ++row) {
        const auto values = forward.queue().logits(row);
        out.emplace_back(values.begin(), values.end());
      }
    }
    return out;
  };
  for (const std::string kernels : {"auto", "portable"}) {
    const Setting setting("", kernels, false);
    const auto once = run(false, setting);
    REQUIRE(once.size() == positions.size());
    CHECK(run(false, setting) == once);
    CHECK(run(true, setting) == once);
    // Only the portable set has a form for buffers.
    if (kernels == "portable") CHECK(run(false, "buffers") == once);
  }
}

TEST_CASE("gathered into one launch, a slice gives the same bits as one launch after another") {
  if (!have_cpu_kernels()) return;  // no processor for them
  const bool int8 = GENERATE(false, true);
  const auto type = GENERATE(actors::TensorType::kF16, actors::TensorType::kQ8_0);
  INFO((int8 ? "int8" : "float") << ", type " << static_cast<int>(type));
  const auto model = make_random_model({.type = type, .head_norms = true, .logit_softcap = 9}, 60);
  const auto tokens = random_tokens(340, 60);
  const auto run = [&](bool undisturbed) {
    Forward forward(model, Setting("", "cpu", int8));
    std::vector<std::vector<float>> out;
    std::uint32_t first = 0;
    for (const std::uint32_t count : {290U, 8U, 1U, 1U, 25U, 15U}) {
      auto slice = forward.slice(tokens, first, count, {first, first + count - 1});
      slice.undisturbed = undisturbed;
      first += count;
      CHECK_FALSE(forward.compute(slice).stopped);
      for (std::size_t row = 0; row < slice.logit_rows.size(); ++row) {
        const auto values = forward.queue().logits(row);
        out.emplace_back(values.begin(), values.end());
      }
    }
    // The last slice is still the one under way.
    if (!undisturbed) CHECK_FALSE(forward.queue().takes_whole_slice());
    // A stop is seen by whatever form the slice takes.
    auto stopped = forward.slice(tokens, 0, 4, {3});
    stopped.undisturbed = undisturbed;
    forward.queue().request_stop();
    CHECK(forward.compute(stopped).stopped);
    forward.queue().clear_stop();
    return out;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE(
    "every option of a layer agrees with the slow forward pass with the processor's kernels") {
  if (!have_cpu_kernels()) return;
  const std::uint64_t seed = 61;
  INFO("seed " << seed);
  const auto tokens = random_tokens(45, seed);
  const auto batch = GENERATE(1U, 6U, 13U, 45U);
  for (const bool int8 : {false, true}) {
    for (const auto type : {actors::TensorType::kF16, actors::TensorType::kQ8_0}) {
      const auto model = make_random_model({.type = type,
                                            .kv_heads = 1,
                                            .norms_behind = true,
                                            .head_norms = true,
                                            .biases = true,
                                            .gelu = true,
                                            .split_halves = true,
                                            .window = 9,
                                            .attention_softcap = 5,
                                            .logit_softcap = 3,
                                            .embedding_scale = 8},
                                           seed);
      Forward forward(model, Setting("", "cpu", int8));
      INFO("batch " << batch << (int8 ? ", int8" : ", float"));
      CHECK(worst_row(forward.logits(tokens, batch, every_position(tokens.size())),
                      reference_logits(model, tokens)) < (int8 ? 5e-2 : 1e-2));
    }
  }
}

TEST_CASE("completions come in order, with times in order") {
  const auto model = make_random_model({}, 53);
  const auto tokens = random_tokens(40, 53);
  Forward forward(model);
  forward.grow(0, 40);
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  REQUIRE(forward.queue().begin_slice(forward.slice(tokens, 0, 40, {})));
  std::uint64_t ticket = 1;
  for (std::uint32_t layer = 0; layer < forward.description().layers; ++layer) {
    REQUIRE(forward.queue().enqueue_layer(layer, LayerStage::kProject, ticket++));
    REQUIRE(forward.queue().enqueue_layer(layer, LayerStage::kAttend, ticket++));
  }
  REQUIRE(forward.queue().enqueue_head(ticket));  // no rows wanted: completes all the same
  forward.queue().flush();
  (void)forward.wait(ticket);
  const auto after = std::chrono::steady_clock::now().time_since_epoch();
  const auto completions = forward.completions();
  REQUIRE(completions.size() == ticket);
  for (std::size_t i = 0; i < completions.size(); ++i) {
    CHECK(completions[i].ticket == i + 1);
    CHECK_FALSE(completions[i].stopped);
    CHECK(completions[i].error.code == ErrorCode::kOk);
    CHECK(completions[i].begin <= completions[i].end);
    if (i > 0) CHECK(completions[i - 1].end <= completions[i].end);
  }
  // On the steady clock: a second's slack for a busy machine, where other clocks are years off.
  CHECK(completions.front().begin > before - std::chrono::seconds(1));
  CHECK(completions.back().end < after + std::chrono::seconds(1));
}

TEST_CASE("a stop drains what is enqueued and leaves the KV cache alone") {
  const auto memory = GENERATE(as<std::string>{}, "", "buffers");
  const auto model = make_random_model({}, 54);
  const auto tokens = random_tokens(30, 54);
  Forward forward(model, memory);
  (void)forward.compute(forward.slice(tokens, 0, 20, {}));
  const auto kept = kv_bytes(forward, 2);
  const auto next = forward.slice(tokens, 20, 10, {29});
  forward.queue().request_stop();
  CHECK(forward.compute(next).stopped);
  CHECK(kv_bytes(forward, 2) == kept);
  forward.queue().clear_stop();
  const auto resumed = forward.compute(next);
  CHECK_FALSE(resumed.stopped);
  CHECK(kv_bytes(forward, 2) != kept);
  const auto values = forward.queue().logits(0);
  const std::vector<float> after_stop(values.begin(), values.end());

  Forward other(model, memory);
  (void)other.compute(other.slice(tokens, 0, 20, {}));
  (void)other.compute(other.slice(tokens, 20, 10, {29}));
  const auto straight = other.queue().logits(0);
  CHECK(std::equal(straight.begin(), straight.end(), after_stop.begin(), after_stop.end()));
}

// A turn may be cancelled while its first layer's weights are still on their way.
TEST_CASE("slices given up before their first stage leave nothing on the device") {
  const auto kernels = GENERATE(as<std::string>{}, "auto", "portable");
  const auto model = make_random_model({}, 57);
  const auto tokens = random_tokens(512, 57);
  const Setting setting("", kernels, false);
  const auto next = [&](Forward& forward) {
    (void)forward.compute(forward.slice(tokens, 0, 3, {2}));
    const auto values = forward.queue().logits(0);
    return std::vector<float>(values.begin(), values.end());
  };
  Forward straight(model, setting);
  const auto expected = next(straight);
  Forward forward(model, setting);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    REQUIRE(forward.queue().begin_slice(forward.slice(tokens, 0, 512, {})));
    forward.queue().request_stop();
    forward.queue().clear_stop();
    CHECK(next(forward) == expected);
  }
}

TEST_CASE("scratch follows the slice") {
  const auto model = make_random_model({}, 55);
  const auto tokens = random_tokens(600, 55);
  Forward forward(model);
  (void)forward.compute(forward.slice(tokens, 0, 1, {}));
  const auto small = forward.queue().scratch_bytes();
  (void)forward.compute(forward.slice(tokens, 0, 512, {511}));
  const auto large = forward.queue().scratch_bytes();
  (void)forward.compute(forward.slice(tokens, 512, 1, {}));
  CHECK(forward.queue().scratch_bytes() == small);
  CHECK(large > 4 * small);
}

TEST_CASE("slices out of range are refused") {
  const auto model = make_random_model({}, 56);
  const auto tokens = random_tokens(600, 56);
  Forward forward(model, "", 256, 64);
  auto& queue = forward.queue();
  CHECK(queue.begin_slice(forward.slice(tokens, 0, 65, {})).error().code ==
        ErrorCode::kBadArgument);
  CHECK(queue.begin_slice(forward.slice(tokens, 0, 0, {})).error().code == ErrorCode::kBadArgument);
  CHECK(queue.begin_slice(forward.slice(tokens, 250, 7, {})).error().code ==
        ErrorCode::kContextFull);
  auto slice = forward.slice(tokens, 0, 8, {});
  slice.logit_rows = {8};
  CHECK(queue.begin_slice(slice).error().code == ErrorCode::kBadArgument);
  slice.logit_rows = {};
  slice.embedding_rows.pop_back();
  CHECK(queue.begin_slice(slice).error().code == ErrorCode::kBadArgument);
  CHECK_FALSE(queue.enqueue_head(1));
  CHECK_FALSE(queue.enqueue_layer(0, LayerStage::kProject, 1));
}

TEST_CASE("models the kernels cannot compute are refused by name") {
  const auto refused = [](const std::function<void(actors::ModelDescription&)>& change,
                          ErrorCode code, const std::string& text) {
    auto description = make_random_model({}, 57).description;
    change(description);
    const auto result = gpu::check_model(description);
    REQUIRE_FALSE(result);
    INFO(result.error().message());
    CHECK(result.error().code == code);
    CHECK(result.error().message().find(text) != std::string::npos);
  };
  const auto output = static_cast<std::size_t>(actors::LayerTensor::kAttnOutput);
  const auto norm = static_cast<std::size_t>(actors::LayerTensor::kAttnNorm);
  refused([](auto& d) { d.kv_heads = 3; }, ErrorCode::kUnsupported, "4 heads over 3 KV heads");
  refused([](auto& d) { d.head_dim = 512; }, ErrorCode::kUnsupported, "head size 512");
  refused([](auto& d) { d.rope.dimensions = 34; }, ErrorCode::kUnsupported, "RoPE over 34");
  refused([&](auto& d) { d.layer[1].tensors[output] = {}; }, ErrorCode::kBadFormat,
          "blk.1.attn_output is missing");
  refused([&](auto& d) { d.layer[1].tensors[output].rows = 63; }, ErrorCode::kBadFormat, "63");
  refused([&](auto& d) { d.layer[0].tensors[output].unit_offset = 1 << 30; }, ErrorCode::kBadFormat,
          "ends behind its unit");
  refused([&](auto& d) { d.layer[0].tensors[output].row_bytes = 4; }, ErrorCode::kBadFormat,
          "rows of 4 bytes");
  refused([&](auto& d) { d.layer[0].tensors[norm].type = actors::TensorType::kF16; },
          ErrorCode::kUnsupported, "must be f32");
  refused([](auto& d) { d.head.output.rows = 79; }, ErrorCode::kBadFormat, "output");
}

// Small enough for an interpreter that watches every access: run under Oclgrind by ctest.
TEST_CASE("oclgrind: a forward pass through every kernel") {
  const auto model = make_random_model({.head_dim = 40,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .norms_behind = true,
                                        .head_norms = true,
                                        .biases = true,
                                        .window = 30,
                                        .logit_softcap = 3},
                                       58);
  const auto tokens = random_tokens(31, 58);
  Forward forward(model, "", 1024, 64);
  const auto wanted = reference_logits(model, tokens);
  std::vector<std::vector<float>> found;
  std::uint32_t first = 0;
  for (const std::uint32_t count : {20U, 10U, 1U}) {
    const auto slice = forward.slice(tokens, first, count, {first + count - 1});
    (void)forward.compute(slice);
    const auto values = forward.queue().logits(0);
    found.emplace_back(values.begin(), values.end());
    first += count;
  }
  CHECK(worst_row(found, {wanted[19], wanted[29], wanted[30]}) < 1e-2);
}

TEST_CASE("oclgrind: a context cut into ranges") {
  const auto model = make_random_model({.heads = 2, .kv_heads = 1}, 59);
  const auto tokens = random_tokens(515, 59);
  Forward forward(model, "", 1024, 512);
  const auto wanted = reference_logits(model, tokens);
  (void)forward.compute(forward.slice(tokens, 0, 512, {}));
  (void)forward.compute(forward.slice(tokens, 512, 3, {514}));
  const auto values = forward.queue().logits(0);
  CHECK(worst_row({{values.begin(), values.end()}}, {wanted[514]}) < 1e-2);
}
