// From the public messages to the coordinator's requests, and back to completions.
#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/answer_source.h"
#include "engine/runtime_impl.h"

namespace mzcache::detail {
namespace {

using engine::AnswerSource;

template <class Report>
void complete(const CompletionPtr<Report>& completion, const Error& error, Report report) {
  if (error.code != ErrorCode::kOk) report.detail = error.message();
  completion->complete(make_error_code(error.code), std::move(report));
}

// kOk is no error: the default std::error_code.
template <class Report>
void finish(const CompletionPtr<Report>& completion, const Error& error, Report report) {
  if (error.code == ErrorCode::kOk) {
    completion->complete({}, std::move(report));
  } else {
    complete(completion, error, std::move(report));
  }
}

// Completes where no model is there to send to.
template <class Report>
RuntimeImpl::Access wiring_or_refuse(const std::shared_ptr<RuntimeImpl>& impl,
                                     const CompletionPtr<Report>& completion) {
  RuntimeImpl::Access wiring = impl->access();
  if (!wiring) {
    complete(completion,
             Error{ErrorCode::kNotFound, 0, "send", "no model is loaded (or the runtime is gone)"},
             Report{});
  }
  return wiring;
}

template <class Report>
std::uint64_t new_request(const std::shared_ptr<RuntimeImpl>& impl,
                          const CompletionPtr<Report>& completion) {
  const std::uint64_t id = impl->next_request();
  completion->request->id.store(id);
  return id;
}

template <class Report>
std::shared_ptr<const std::atomic<bool>> cancelled_flag(const CompletionPtr<Report>& completion) {
  return {completion->request, &completion->request->cancelled};
}

// The turn's tokens, made when it begins: a template needs to know what came before.
std::function<std::vector<Token>(std::span<const Token>)> turn_maker(
    const std::shared_ptr<RuntimeImpl>& impl, const Generate& message) {
  auto tokenizer = impl->tokenizer();
  auto chat = message.options.raw ? nullptr : impl->chat_template(message.session);
  return [tokenizer, chat, prompt = message.prompt,
          system = message.options.system](std::span<const Token> context) {
    if (chat == nullptr) {
      return tokenizer->encode(
          prompt, {.parse_special = true, .add_bos = context.empty(), .starts = context.empty()});
    }
    const bool closed = !context.empty() && tokenizer->ends_generation(context.back());
    return chat->user_turn(*tokenizer, {prompt, system, context.empty(), closed});
  };
}

Result<void> check_bias(const GenerateOptions& options, std::uint32_t vocabulary) {
  for (const auto& [token, bias] : options.logit_bias) {
    if (token >= 0 && static_cast<std::uint32_t>(token) < vocabulary) continue;
    return Error{ErrorCode::kBadArgument, 0, "generate",
                 "logit_bias: token " + std::to_string(token) + " is not in the vocabulary of " +
                     std::to_string(vocabulary),
                 "logit_bias"};
  }
  return {};
}

// Null where the message has no grammar.
Result<std::unique_ptr<engine::GrammarConstraint>> make_constraint(
    const std::shared_ptr<RuntimeImpl>& impl, const std::string& text) {
  std::unique_ptr<engine::GrammarConstraint> constraint;
  if (text.empty()) return constraint;
  auto grammar = engine::Grammar::parse(text);
  if (!grammar) return std::move(grammar).error();
  constraint =
      std::make_unique<engine::GrammarConstraint>(std::move(*grammar), impl->token_index());
  if (constraint->nothing_allowed()) {
    return Error{ErrorCode::kBadArgument, 0, "grammar",
                 "no token of the model's vocabulary begins a text of it"};
  }
  return constraint;
}

}  // namespace

void start(const std::shared_ptr<RuntimeImpl>& impl, Evict message,
           const CompletionPtr<EvictReport>& completion) {
  const RuntimeImpl::Access wiring = wiring_or_refuse(impl, completion);
  if (!wiring) return;
  engine::EvictRequest request;
  request.id = new_request(impl, completion);
  request.bytes = message.amount.bytes;
  request.percent = message.amount.percent;
  request.deadline = actors::Nanoseconds(static_cast<std::int64_t>(message.deadline_ms * 1e6));
  request.accepted = impl->now();
  request.done = [completion](const Error& error, EvictReport report) {
    finish(completion, error, std::move(report));
  };
  wiring->coordinator().post(std::move(request));
}

void start(const std::shared_ptr<RuntimeImpl>& impl, Restore message,
           const CompletionPtr<RestoreReport>& completion) {
  const RuntimeImpl::Access wiring = wiring_or_refuse(impl, completion);
  if (!wiring) return;
  engine::RestoreRequest request;
  request.id = new_request(impl, completion);
  request.cancelled = cancelled_flag(completion);
  request.bytes = message.bytes;
  request.keep_copies = message.keep_copies;
  request.accepted = impl->now();
  request.done = [completion](const Error& error, RestoreReport report) {
    finish(completion, error, std::move(report));
  };
  wiring->coordinator().post(std::move(request));
}

void start(const std::shared_ptr<RuntimeImpl>& impl, Generate message,
           const CompletionPtr<Answer>& completion) {
  const RuntimeImpl::Access wiring = wiring_or_refuse(impl, completion);
  if (!wiring) return;
  std::function<void(std::string)> show;
  if (message.options.on_token) {
    show = [completion, on_token = message.options.on_token](std::string text) {
      completion->post([on_token, text = std::move(text)] { on_token(text); });
    };
  }
  if (auto checked = check_bias(message.options, wiring->model().vocabulary); !checked) {
    return complete(completion, checked.error(), Answer{});
  }
  auto constraint = make_constraint(impl, message.options.grammar);
  if (!constraint) return complete(completion, constraint.error(), Answer{});
  auto source = std::make_shared<AnswerSource>(impl->tokenizer(), message.options,
                                               std::move(*constraint), std::move(show));
  engine::GenerateRequest request;
  request.id = new_request(impl, completion);
  request.cancelled = cancelled_flag(completion);
  request.context = message.session.id;
  if (message.tokens.empty()) {
    request.make_tokens = turn_maker(impl, message);
  } else {
    request.tokens = std::move(message.tokens);
  }
  request.source = source;
  request.slice_tokens = message.options.slice_tokens;
  request.resume_after_evict = message.options.on_evict == OnEvict::kResume;
  request.accepted = impl->now();
  request.done = [completion, source](engine::GenerateResult result) {
    source->finish();
    result.answer.text = source->text();
    result.answer.logprobs = source->take_logprobs();
    finish(completion, result.error, std::move(result.answer));
  };
  wiring->coordinator().post(std::move(request));
}

void start(const std::shared_ptr<RuntimeImpl>& impl, Evaluate message,
           const CompletionPtr<LogitRows>& completion) {
  const RuntimeImpl::Access wiring = wiring_or_refuse(impl, completion);
  if (!wiring) return;
  for (const std::uint32_t position : message.positions) {
    if (position >= message.tokens.size()) {
      return complete(completion,
                      Error{ErrorCode::kBadArgument, 0, "evaluate",
                            "position " + std::to_string(position) + " of " +
                                std::to_string(message.tokens.size()) + " tokens"},
                      LogitRows{});
    }
  }
  // Rows come in order of position; the caller may have asked in any.
  std::vector<std::uint32_t> order = message.positions;
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  engine::GenerateRequest request;
  request.id = new_request(impl, completion);
  request.cancelled = cancelled_flag(completion);
  request.context = message.session.id;
  request.tokens = std::move(message.tokens);
  request.positions = order;
  request.slice_tokens = message.slice_tokens;
  request.accepted = impl->now();
  const std::uint32_t vocabulary = wiring->model().vocabulary;
  request.done = [completion, vocabulary, order = std::move(order),
                  wanted = std::move(message.positions)](engine::GenerateResult result) {
    LogitRows rows;
    rows.vocabulary = vocabulary;
    rows.restore = result.answer.restore;
    Error error = std::move(result.error);
    if (error.code == ErrorCode::kOk && result.rows.size() != order.size() * vocabulary) {
      error = {ErrorCode::kCancelled, 0, "evaluate", stop_reason_name(result.answer.stop)};
    }
    if (error.code == ErrorCode::kOk) {
      for (const std::uint32_t position : wanted) {
        const auto row = std::lower_bound(order.begin(), order.end(), position) - order.begin();
        const auto begin = result.rows.begin() + row * static_cast<std::ptrdiff_t>(vocabulary);
        rows.values.insert(rows.values.end(), begin,
                           begin + static_cast<std::ptrdiff_t>(vocabulary));
      }
    }
    finish(completion, error, std::move(rows));
  };
  wiring->coordinator().post(std::move(request));
}

void start(const std::shared_ptr<RuntimeImpl>& impl, Status,
           const CompletionPtr<StatusReport>& completion) {
  const RuntimeImpl::Access wiring = wiring_or_refuse(impl, completion);
  if (!wiring) return;
  wiring->coordinator().post(
      engine::StatusRequest{[wiring = wiring.get(), completion](StatusReport report) {
        report.scratch_bytes += wiring->scratch_bytes();
        const std::uint64_t ours =
            report.resident.bytes + report.memory_swap_bytes + report.scratch_bytes;
        report.floor_bytes = report.process_bytes > ours ? report.process_bytes - ours : 0;
        finish(completion, {}, std::move(report));
      }});
}

void start(const std::shared_ptr<RuntimeImpl>& impl, Reset message,
           const CompletionPtr<Done>& completion) {
  const RuntimeImpl::Access wiring = wiring_or_refuse(impl, completion);
  if (!wiring) return;
  wiring->coordinator().post(engine::ResetContext{
      message.session.id, [completion](const Error& error) { finish(completion, error, Done{}); }});
}

void cancel(const std::weak_ptr<RuntimeImpl>& weak, std::uint64_t request) {
  const std::shared_ptr<RuntimeImpl> impl = weak.lock();
  if (impl == nullptr || request == 0) return;
  if (const RuntimeImpl::Access wiring = impl->access()) {
    wiring->coordinator().post(engine::CancelRequest{request});
  }
}

}  // namespace mzcache::detail
