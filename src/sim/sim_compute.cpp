#include "sim/sim_compute.h"

#include <algorithm>

#include "actors/checksum.h"
#include "sim/sim_codec.h"
#include "sim/sim_model.h"

namespace mzcache::sim {

using actors::Nanoseconds;

namespace {

constexpr Nanoseconds kReportLatencyMax = std::chrono::microseconds(20);

std::span<std::byte> row_of(std::span<std::byte> chunk, const actors::ChunkLayout& layout,
                            std::uint32_t token) {
  const std::uint64_t row_bytes = layout.bytes() / layout.tokens;
  return chunk.subspan(token * row_bytes, row_bytes);
}

}  // namespace

std::uint64_t kv_bytes_read(const actors::ModelDescription& model, std::uint32_t layer,
                            std::uint32_t position) {
  const std::uint32_t first = model.layer[layer].first_visible(position) / model.chunk_tokens;
  return model.chunk_bytes() * (position / model.chunk_tokens + 1 - first);
}

Result<void> SimCompute::begin_slice(const actors::ComputeSlice& slice) {
  if (!queue_.empty()) memory_.violate("a slice began while the queue was busy");
  slice_ = slice;
  gathered_ = slice.undisturbed && machine_.device_times.has_value();
  dispatcher_.charge(machine_.turn_time);
  const std::uint32_t tokens = model_.chunk_layout().tokens;
  for (const actors::EncodedChunk& chunk : slice.encoded) {
    if ((chunk.chunk + 1) * tokens > slice.first_position) {
      memory_.violate("a chunk that the slice writes to lies encoded");
    }
  }
  states_.clear();
  for (std::uint32_t i = 0; i < slice.token_count; ++i) {
    const auto row = std::span(slice.embedding_rows[i], model_.embedding.row_bytes);
    states_.push_back(mix(actors::checksum(row), slice.first_position + i));
  }
  return {};
}

Nanoseconds SimCompute::measured_time(double weights_s, std::uint64_t kv_bytes) const {
  const double kv_s = machine_.device_kv_bytes_per_s > 0
                          ? static_cast<double>(kv_bytes) / machine_.device_kv_bytes_per_s
                          : 0;
  const Nanoseconds time(static_cast<std::int64_t>((weights_s + kv_s) * 1e9));
  return gathered_ ? time : time + machine_.device_times->launch;
}

Nanoseconds SimCompute::time_of(std::uint64_t weights_bytes, std::uint64_t kv_bytes,
                                double share) const {
  const double rate = machine_.device_bytes_per_s;
  if (rate <= 0) {
    return Nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(machine_.layer_time.count()) * share));
  }
  const double kv_rate = machine_.device_kv_bytes_per_s > 0 ? machine_.device_kv_bytes_per_s : rate;
  const double time =
      static_cast<double>(weights_bytes) / rate + static_cast<double>(kv_bytes) / kv_rate;
  return Nanoseconds(static_cast<std::int64_t>(time * 1e9));
}

Nanoseconds SimCompute::stage_time(std::uint32_t layer, actors::LayerStage stage) const {
  const std::uint64_t weights = model_.layer[layer].unit_bytes;
  const auto& measured = machine_.device_times;
  if (stage == actors::LayerStage::kProject) {
    // A third of a layer's weights project to Q, K, V.
    return measured ? measured_time(static_cast<double>(weights) * measured->project_s_per_byte, 0)
                    : time_of(weights / 3, 0, 0.3);
  }
  const std::uint64_t kv = kv_bytes_read(model_, layer, slice_.first_position);
  return measured ? measured_time(static_cast<double>(weights) * measured->attend_s_per_byte, kv)
                  : time_of(weights * 2 / 3, kv, 0.7);
}

Nanoseconds SimCompute::head_time() const {
  const std::uint64_t weights = model_.head.unit_bytes;
  const auto& measured = machine_.device_times;
  return measured ? measured_time(static_cast<double>(weights) * measured->head_s_per_byte, 0)
                  : time_of(weights, 0, 0.5);
}

void SimCompute::enqueue(std::function<void()> work, Nanoseconds time, std::uint64_t ticket) {
  queue_.push_back({std::move(work), time, ticket});
  if (queue_.size() == 1) begin_next();
  tell_cores();
}

void SimCompute::begin_next() {
  const Nanoseconds begin = dispatcher_.now();
  first_ends_ = begin + queue_.front().time;
  dispatcher_.at(first_ends_, [this, begin] { end_of_work(begin); });
}

// Or not yet: what ran beside it on its cores made it late.
void SimCompute::end_of_work(Nanoseconds begin) {
  if (const Nanoseconds late = cores_.take(); late.count() > 0) {
    first_ends_ = dispatcher_.now() + late;
    tell_cores();
    dispatcher_.at(first_ends_, [this, begin] { end_of_work(begin); });
    return;
  }
  const Work done = std::move(queue_.front());
  queue_.pop_front();
  if (!queue_.empty()) begin_next();
  tell_cores();
  const bool stopped = stop_;
  if (!stopped && machine_.content) done.work();
  if (done.ticket != 0) report({done.ticket, stopped, {}, begin, dispatcher_.now()});
}

void SimCompute::tell_cores() {
  if (queue_.empty()) return cores_.device_busy_until(dispatcher_.now());
  Nanoseconds until = first_ends_;
  for (std::size_t i = 1; i < queue_.size(); ++i) until += queue_[i].time;
  cores_.device_busy_until(until);
}

// A device completes in order, but on threads of its own, whose messages may overtake each other.
void SimCompute::report(const actors::ComputeCompletion& completion) {
  if (!machine_.content) return listener_(completion);  // only times matter
  const Nanoseconds late(dispatcher_.random()() % kReportLatencyMax.count());
  dispatcher_.at(dispatcher_.now() + late, [this, completion] { listener_(completion); });
}

Result<void> SimCompute::enqueue_layer(std::uint32_t layer, actors::LayerStage stage,
                                       std::uint64_t ticket) {
  const Nanoseconds time = stage_time(layer, stage);
  if (stage == actors::LayerStage::kProject) {
    enqueue([this, layer] { project(layer); }, time, ticket);
  } else {
    enqueue([this, layer] { attend(layer); }, time, ticket);
  }
  return {};
}

Result<void> SimCompute::enqueue_head(std::uint64_t ticket) {
  logits_.assign(slice_.logit_rows.size() * model_.vocabulary, 0.0F);
  enqueue([this] { head(); }, head_time(), ticket);
  return {};
}

void SimCompute::clear_stop() noexcept {
  if (!queue_.empty()) memory_.violate("the stop flag was cleared while the queue was busy");
  stop_ = false;
}

void SimCompute::project(std::uint32_t layer) {
  weights_ = actors::checksum(memory_.bytes(actors::weights_unit(layer)));
}

std::uint64_t SimCompute::seed_before(std::uint32_t layer, std::uint32_t position) {
  const actors::ChunkLayout layout = model_.chunk_layout();
  const std::uint32_t chunk = position / layout.tokens;
  const std::uint32_t token = position % layout.tokens;
  for (const actors::EncodedChunk& encoded : slice_.encoded) {
    if (encoded.layer != layer || encoded.chunk != chunk) continue;
    memory_.touch_swap(encoded.bytes);
    return SimCodec::encoded_seed(encoded.bytes, layout, token);
  }
  const auto bytes =
      row_of(memory_.bytes(actors::kv_unit(slice_.context, layer, chunk)), layout, token);
  return row_matches(bytes) ? row_seed(bytes) : 0xBAD;
}

void SimCompute::attend(std::uint32_t layer) {
  const actors::ChunkLayout layout = model_.chunk_layout();
  const auto row = [&](std::uint32_t position) {
    return row_of(memory_.bytes(actors::kv_unit(slice_.context, layer, position / layout.tokens)),
                  layout, position % layout.tokens);
  };
  const actors::LayerDescription& description = model_.layer[layer];
  std::uint32_t folded_from = description.first_visible(slice_.first_position);
  // Rows of the positions from folded_from on, and what they fold to.
  std::vector<std::uint64_t> seeds;
  std::uint64_t digest = 0;
  for (std::uint32_t position = folded_from; position < slice_.first_position; ++position) {
    seeds.push_back(seed_before(layer, position));
    digest = fold_row(digest, seeds.back());
  }
  for (std::uint32_t i = 0; i < slice_.token_count; ++i) {
    const std::uint32_t position = slice_.first_position + i;
    seeds.push_back(kv_seed(states_[i], weights_));
    write_row(row(position), seeds.back());
    digest = fold_row(digest, seeds.back());
    if (const std::uint32_t from = description.first_visible(position); from != folded_from) {
      seeds.erase(seeds.begin(), seeds.begin() + (from - folded_from));
      folded_from = from;
      digest = 0;
      for (const std::uint64_t seed : seeds) digest = fold_row(digest, seed);
    }
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
