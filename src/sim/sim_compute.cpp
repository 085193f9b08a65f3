#include "sim/sim_compute.h"

#include <algorithm>

#include "actors/checksum.h"
#include "sim/sim_model.h"

namespace mzcache::sim {

using actors::Nanoseconds;

Result<void> SimCompute::begin_slice(const actors::ComputeSlice& slice) {
  if (queued_ > 0) memory_.violate("a slice began while the queue was busy");
  slice_ = slice;
  states_.clear();
  for (std::uint32_t i = 0; i < slice.token_count; ++i) {
    const auto row = std::span(slice.embedding_rows[i], model_.embedding.row_bytes);
    states_.push_back(mix(actors::checksum(row), slice.first_position + i));
  }
  return {};
}

Nanoseconds SimCompute::time_of(std::uint64_t bytes, double share) const {
  const double time = machine_.device_bytes_per_s > 0
                          ? static_cast<double>(bytes) / machine_.device_bytes_per_s * 1e9
                          : static_cast<double>(machine_.layer_time.count()) * share;
  return Nanoseconds(static_cast<std::int64_t>(time));
}

void SimCompute::enqueue(std::function<void()> work, Nanoseconds time, std::uint64_t ticket) {
  const Nanoseconds begin = std::max(dispatcher_.now(), busy_until_);
  busy_until_ = begin + time;
  ++queued_;
  dispatcher_.at(busy_until_, [this, work = std::move(work), ticket, begin] {
    --queued_;
    const bool stopped = stop_;
    if (!stopped && machine_.content) work();
    if (ticket != 0) listener_({ticket, stopped, {}, begin, dispatcher_.now()});
  });
}

Result<void> SimCompute::enqueue_layer(std::uint32_t layer, actors::LayerStage stage,
                                       std::uint64_t ticket) {
  // A third of a layer's weights project to Q, K, V.
  const std::uint64_t weights = model_.layer[layer].unit_bytes;
  if (stage == actors::LayerStage::kProject) {
    enqueue([this, layer] { project(layer); }, time_of(weights / 3, 0.3), ticket);
  } else {
    const std::uint64_t chunks = slice_.first_position / model_.chunk_tokens + 1;
    enqueue([this, layer] { attend(layer); },
            time_of(weights * 2 / 3 + chunks * model_.chunk_bytes(), 0.7), ticket);
  }
  return {};
}

Result<void> SimCompute::enqueue_head(std::uint64_t ticket) {
  logits_.assign(slice_.logit_rows.size() * model_.vocabulary, 0.0F);
  enqueue([this] { head(); }, time_of(model_.head.unit_bytes, 0.5), ticket);
  return {};
}

void SimCompute::clear_stop() noexcept {
  if (queued_ > 0) memory_.violate("the stop flag was cleared while the queue was busy");
  stop_ = false;
}

void SimCompute::project(std::uint32_t layer) {
  weights_ = actors::checksum(memory_.bytes(actors::weights_unit(layer)));
}

void SimCompute::attend(std::uint32_t layer) {
  const actors::ChunkLayout layout = model_.chunk_layout();
  const std::uint64_t row_bytes = layout.bytes() / layout.tokens;
  const auto row = [&](std::uint32_t position) {
    const auto chunk =
        memory_.bytes(actors::kv_unit(slice_.context, layer, position / layout.tokens));
    return chunk.subspan(position % layout.tokens * row_bytes, row_bytes);
  };
  std::uint64_t digest = 0;
  for (std::uint32_t position = 0; position < slice_.first_position; ++position) {
    const auto bytes = row(position);
    digest = fold_row(digest, row_matches(bytes) ? row_seed(bytes) : 0xBAD);
  }
  for (std::uint32_t i = 0; i < slice_.token_count; ++i) {
    const std::uint64_t seed = kv_seed(states_[i], weights_);
    write_row(row(slice_.first_position + i), seed);
    digest = fold_row(digest, seed);
    states_[i] = next_state(states_[i], digest);
  }
}

void SimCompute::head() {
  const std::uint64_t weights = actors::checksum(memory_.bytes(actors::head_unit(model_.layers)));
  logits_.assign(slice_.logit_rows.size() * model_.vocabulary, 0.0F);
  for (std::size_t i = 0; i < slice_.logit_rows.size(); ++i) {
    const std::uint64_t token = mix(states_[slice_.logit_rows[i]], weights) % model_.vocabulary;
    logits_[i * model_.vocabulary + token] = 1.0F;
  }
}

}  // namespace mzcache::sim
