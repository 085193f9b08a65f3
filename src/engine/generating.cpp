#include "engine/generating.h"

#include <algorithm>
#include <span>
#include <string>

#include "engine/milliseconds.h"

namespace mzcache::engine {
namespace {

using actors::LayerPart;
using actors::Nanoseconds;

// The first logit minus the second: how close the call was.
float gap_of(std::span<const float> logits) {
  float first = -3.4e38F;
  float second = -3.4e38F;
  for (const float value : logits) {
    if (value > first) {
      second = first;
      first = value;
    } else if (value > second) {
      second = value;
    }
  }
  return first - second;
}

}  // namespace

Error Generating::begin(GenerateRequest request) {
  Context* context = state_.cache.find(request.context);
  if (context == nullptr) {
    return {ErrorCode::kNotFound, 0, "generate", "session " + std::to_string(request.context)};
  }
  if (request.make_tokens) request.tokens = request.make_tokens(context->tokens);
  const std::size_t after = context->tokens.size() + request.tokens.size();
  if (after > context->tokens_max) {
    return {.code = ErrorCode::kContextFull,
            .native = 0,
            .operation = "generate",
            .context = std::to_string(after) + " tokens, the context holds " +
                       std::to_string(context->tokens_max),
            .hint = "give it more (context_tokens, -c) or less to read"};
  }
  if (request.tokens.empty()) return {ErrorCode::kBadArgument, 0, "generate", "no tokens"};
  for (const Token token : request.tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= state_.model.embedding.rows) {
      return {ErrorCode::kBadArgument, 0, "generate",
              "token " + std::to_string(token) + " is not in the vocabulary of " +
                  std::to_string(state_.model.embedding.rows),
              "tokens"};
    }
  }
  Turn turn;
  turn.start = context->tokens.size();
  // All but the token said last was computed in its turn; what an eviction dropped since is not.
  turn.recomputed = context->kv_tokens + 1 < turn.start;
  context->taken_back_to = static_cast<std::uint32_t>(turn.start);
  context->tokens.insert(context->tokens.end(), request.tokens.begin(), request.tokens.end());
  turn.result.answer.prompt_tokens = static_cast<std::uint32_t>(request.tokens.size());
  turn.begun = state_.clock.now();
  turn.request = std::move(request);
  rows_error_ = {};
  turn_ = std::move(turn);
  return {};
}

// Chunks that only the interrupted slice would have filled.
void Generating::trim(Context& context) {
  const std::uint32_t chunk_tokens = state_.chunk_tokens();
  state_.trim_chunks(context, (context.kv_tokens + chunk_tokens - 1) / chunk_tokens);
}

Turn Generating::pause() {
  trim(*state_.cache.find(turn_->request.context));
  slice_waits_ = false;
  turn_->computed = state_.cache.find(turn_->request.context)->kv_tokens;
  Turn turn = std::move(*turn_);
  turn_.reset();
  return turn;
}

void Generating::resume(Turn turn) {
  rows_error_ = {};
  const std::uint32_t computed = state_.cache.find(turn.request.context)->kv_tokens;
  if (computed < turn.computed) {
    // Rows of positions that are computed again come again.
    const auto kept =
        std::count_if(turn.request.positions.begin(), turn.request.positions.end(),
                      [&](std::uint32_t position) { return turn.start + position < computed; });
    turn.result.rows.resize(std::min(turn.result.rows.size(),
                                     static_cast<std::size_t>(kept) * state_.model.vocabulary));
    turn.recomputed = true;
  }
  turn_ = std::move(turn);
}

void Generating::next_slice() {
  Context& context = *state_.cache.find(turn_->request.context);
  const std::uint32_t slice_max =
      std::min(std::max(1U, turn_->request.slice_tokens), state_.options.slice_tokens_max);
  first_ = context.kv_tokens;
  count_ = std::min(slice_max, static_cast<std::uint32_t>(context.tokens.size()) - first_);
  const std::uint32_t chunks =
      (first_ + count_ + state_.chunk_tokens() - 1) / state_.chunk_tokens();
  if (chunks > context.chunks) {
    context.chunks = chunks;
    state_.residency.set_chunks(context.id, chunks);
  }
  wanted_rows_.clear();
  for (const std::uint32_t position : turn_->request.positions) {
    const std::uint64_t at = turn_->start + position;
    if (at >= first_ && at < first_ + count_) {
      wanted_rows_.push_back(static_cast<std::uint32_t>(at) - first_);
    }
  }
  const bool last = first_ + count_ == context.tokens.size();
  if (last && turn_->request.source != nullptr &&
      (wanted_rows_.empty() || wanted_rows_.back() != count_ - 1)) {
    wanted_rows_.push_back(count_ - 1);
  }
  ++slice_;
  slice_waits_ = true;
  actors::ReadRows read =
      rows_.prepare(std::span<const Token>(context.tokens).subspan(first_, count_));
  if (read.rows.empty()) return;
  read.request = slice_;
  rows_pending_ = slice_;
  state_.ports.read_rows.send(std::move(read));
}

void Generating::on(const actors::RowsRead& message) {
  if (message.request != rows_pending_) return;
  rows_pending_ = 0;
  if (message.error.code != ErrorCode::kOk) {
    rows_error_ = message.error;
    rows_.forget();
  }
}

void Generating::send_slice() {
  const Context& context = *state_.cache.find(turn_->request.context);
  actors::ComputeTokens message;
  message.request = slice_;
  message.layers = state_.model.layers;
  message.slice.context = context.id;
  message.slice.first_position = first_;
  message.slice.token_count = count_;
  message.slice.embedding_rows =
      rows_.rows(std::span<const Token>(context.tokens).subspan(first_, count_));
  message.slice.logit_rows = wanted_rows_;
  if (state_.options.compressed_attention) {
    message.slice.encoded = state_.residency.chunks_in_place(context.id, first_);
  }
  message.slice.undisturbed = !state_.options.separate_launches;
  for (std::uint32_t layer = 0; layer < state_.model.layers; ++layer) {
    message.weights_ready.push_back(state_.residency.weights_ready(layer));
    message.kv_ready.push_back(state_.residency.kv_ready(context.id, layer, first_));
  }
  message.weights_ready.push_back(state_.residency.weights_ready(state_.model.layers));
  computing_ = true;
  slice_waits_ = false;
  state_.ports.compute.send(std::move(message));
}

void Generating::part_ready(std::uint32_t layer, LayerPart part) {
  if (!computing_) return;
  const bool ready = part == LayerPart::kWeights
                         ? state_.residency.weights_ready(layer)
                         : state_.residency.kv_ready(turn_->request.context, layer, first_);
  if (!ready) return;
  state_.ports.layer_ready.send(actors::LayerReady{slice_, layer, part});
}

bool Generating::slice_done(const actors::TokenReady& message) {
  computing_ = false;
  commit(message);
  const Context& context = *state_.cache.find(turn_->request.context);
  if (context.kv_tokens < context.tokens.size()) return true;
  if (turn_->result.answer.prefill_ms == 0) {
    turn_->result.answer.prefill_ms = to_ms(state_.clock.now() - turn_->begun);
  }
  if (turn_->request.source == nullptr) return false;
  return take_token(message.logits.back());
}

void Generating::commit(const actors::TokenReady& message) {
  Context& context = *state_.cache.find(turn_->request.context);
  context.kv_tokens = first_ + count_;
  const std::uint32_t chunk_tokens = state_.chunk_tokens();
  for (std::uint32_t layer = 0; layer < state_.model.layers; ++layer) {
    for (std::uint32_t chunk = first_ / chunk_tokens; chunk <= (first_ + count_ - 1) / chunk_tokens;
         ++chunk) {
      state_.residency.forget_forms(actors::kv_unit(context.id, layer, chunk));
    }
  }
  if (state_.observer != nullptr) state_.observer->computed(context.id, first_, count_);
  std::size_t row = 0;
  for (const std::uint32_t position : turn_->request.positions) {
    const std::uint64_t at = turn_->start + position;
    if (at < first_ || at >= first_ + count_) continue;
    const auto& logits = message.logits[row++];
    turn_->result.rows.insert(turn_->result.rows.end(), logits.begin(), logits.end());
  }
  turn_->wait_ms += to_ms(message.wait);
  state_.free_unseen(context);
}

bool Generating::take_token(std::span<const float> logits) {
  Context& context = *state_.cache.find(turn_->request.context);
  const TokenSource::Decision decision = turn_->request.source->next(logits, context.tokens);
  turn_->last_token = state_.clock.now();
  if (turn_->result.answer.tokens.empty()) {
    turn_->first_token = turn_->last_token;
    context.taken_back_to.reset();  // from here on everything said stays
    state_.free_unseen(context);
  }
  context.tokens.push_back(decision.token);
  turn_->result.answer.tokens.push_back(decision.token);
  turn_->result.answer.gaps.push_back(gap_of(logits));
  if (decision.stop) {
    turn_->reason = *decision.stop;
    return false;
  }
  if (context.tokens.size() >= context.tokens_max) {
    turn_->reason = StopReason::kContextFull;
    return false;
  }
  return true;
}

void Generating::stop() {
  if (computing_) state_.ports.stop_compute.send(actors::StopCompute{slice_});
}

void Generating::slice_stopped(const actors::TokenReady& message) {
  computing_ = false;
  turn_->wait_ms += to_ms(message.wait);
}

void Generating::start_over() {
  turn_->recomputed = true;
  ++turn_->start_overs;
  turn_->result.rows.clear();
}

GenerateResult Generating::finish(StopReason reason, Error error) {
  Context& context = *state_.cache.find(turn_->request.context);
  Answer& answer = turn_->result.answer;
  const bool whole = error.code == ErrorCode::kOk && reason == turn_->reason &&
                     context.kv_tokens + 1 >= context.tokens.size();
  if (!whole && answer.tokens.empty()) {
    // Nothing was said in this turn: the context is as it was before it.
    context.tokens.resize(turn_->start);
    context.kv_tokens = std::min(context.kv_tokens, static_cast<std::uint32_t>(turn_->start));
  }
  context.taken_back_to.reset();
  trim(context);
  state_.free_unseen(context);
  answer.stop = reason;
  answer.context_tokens = static_cast<std::uint32_t>(context.tokens.size());
  if (!answer.tokens.empty()) {
    answer.ttft_ms = to_ms(turn_->first_token - turn_->request.accepted);
    if (answer.tokens.size() > 1 && turn_->last_token > turn_->first_token) {
      answer.decode_tokens_per_s = static_cast<double>(answer.tokens.size() - 1) * 1000.0 /
                                   to_ms(turn_->last_token - turn_->first_token);
    }
  }
  slice_waits_ = false;
  GenerateResult result = std::move(turn_->result);
  result.error = std::move(error);
  turn_.reset();
  return result;
}

}  // namespace mzcache::engine
