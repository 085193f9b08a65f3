#include "mzcache/runtime.h"

#include <future>
#include <memory>
#include <utility>

#include "engine/milliseconds.h"
#include "engine/runtime_impl.h"

namespace mzcache {

namespace {

// Posts the request that `make` builds around a callback, and waits for what the callback is given.
// The promise belongs to the callback: this thread may go on, and end the scope of anything it
// holds, while the coordinator is still inside set_value().
template <class Value, class Make>
Value ask_coordinator(engine::Wiring& wiring, Make make) {
  auto promise = std::make_shared<std::promise<Value>>();
  std::future<Value> answer = promise->get_future();
  wiring.coordinator().post(
      make([promise = std::move(promise)](Value value) { promise->set_value(std::move(value)); }));
  return answer.get();
}

}  // namespace

const char* stop_reason_name(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::kEos:
      return "eos";
    case StopReason::kLength:
      return "length";
    case StopReason::kStop:
      return "stop";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kEvicted:
      return "evicted";
    case StopReason::kContextFull:
      return "context_full";
  }
  return "";
}

// ------------------------------------------------------------------ the implementation's object

RuntimeImpl::RuntimeImpl(Config config, engine::NoticeSink notice)
    : config_(std::move(config)), notice_(std::move(notice)) {
  timeline_.enable(!config_.trace.file.empty());
}

RuntimeImpl::~RuntimeImpl() { shut_down(); }

void RuntimeImpl::load(const std::string& file) {
  if (access())
    throw Exception({ErrorCode::kNotYet, 0, "load", file + ": a runtime holds one model"});
  load_begin_ = now();
  const engine::GgufFile gguf = value_or_throw(engine::GgufFile::open(file));
  auto wiring = value_or_throw(engine::Wiring::create(gguf, config_, notice_, timeline_));
  tokenizer_ = value_or_throw(engine::Tokenizer::load(gguf));
  template_text_ = wiring->model().chat_template;
  info_ = inspect(file);
  metadata_ms_ = engine::to_ms(now() - load_begin_);
  const std::unique_lock lock(wiring_mutex_);
  wiring_ = std::move(wiring);
}

void RuntimeImpl::shut_down() {
  std::unique_ptr<engine::Wiring> wiring;
  {
    const std::unique_lock lock(wiring_mutex_);
    wiring = std::move(wiring_);
  }
  if (wiring == nullptr) return;
  ask_coordinator<bool>(
      *wiring, [](const auto& answer) { return engine::Shutdown{[answer] { answer(true); }}; });
}

RuntimeImpl::Access RuntimeImpl::access() {
  std::shared_lock lock(wiring_mutex_);
  engine::Wiring* wiring = wiring_.get();
  return {std::move(lock), wiring};
}

RuntimeImpl::Access RuntimeImpl::loaded() {
  Access wiring = access();
  if (!wiring) throw Exception({ErrorCode::kNotFound, 0, "runtime", "no model is loaded"});
  return wiring;
}

Session RuntimeImpl::open_session(const SessionOptions& options) {
  const Access wiring = loaded();
  const std::uint32_t model_limit = wiring->model().context_length;
  const std::uint32_t limit = options.context_tokens == 0 ? model_limit : options.context_tokens;
  if (limit > model_limit) {
    throw Exception({ErrorCode::kBadArgument, 0, "open session",
                     std::to_string(limit) + " context tokens are more than the model takes " +
                         "(allowed: 1 to " + std::to_string(model_limit) + ")",
                     "context_tokens"});
  }
  SessionTemplate chosen;
  chosen.chat = value_or_throw(engine::choose_chat_template(
      *tokenizer_, {template_text_, options.chat_template, options.thinking}));
  chosen.to_say = options.chat_template.empty() && chosen.chat->name() == "raw";
  Session session;
  {
    const std::lock_guard lock(sessions_mutex_);
    session.id = ++sessions_;
    templates_[session.id] = std::move(chosen);
  }
  Error error = ask_coordinator<Error>(*wiring.get(), [&](const auto& answer) {
    return engine::OpenContext{session.id, limit, answer};
  });
  if (error.code == ErrorCode::kNoMemory) error.hint = "open the session with fewer context_tokens";
  if (error.code != ErrorCode::kOk) throw Exception(std::move(error));
  return session;
}

std::shared_ptr<const engine::ChatTemplate> RuntimeImpl::chat_template(Session session) {
  std::shared_ptr<const engine::ChatTemplate> chat;
  bool to_say = false;
  {
    const std::lock_guard lock(sessions_mutex_);
    const auto found = templates_.find(session.id);
    if (found == templates_.end()) return nullptr;
    chat = found->second.chat;
    to_say = std::exchange(found->second.to_say, false);
  }
  if (to_say && notice_) {
    const std::string why = template_text_.empty()
                                ? "the model has no chat template"
                                : "the model's chat template is of no known family";
    notice_(why + ": turns are sent as raw text (templates by name: " +
            engine::chat_template_names() + ")");
  }
  return chat;
}

std::shared_ptr<const engine::TokenIndex> RuntimeImpl::token_index() {
  const std::lock_guard lock(token_index_mutex_);
  if (token_index_ == nullptr) {
    token_index_ = std::make_shared<const engine::TokenIndex>(*tokenizer_);
  }
  return token_index_;
}

LoadReport RuntimeImpl::load_report() {
  const Access wiring = loaded();
  LoadReport report;
  report.metadata_ms = metadata_ms_;
  using Times = std::pair<actors::Nanoseconds, actors::Nanoseconds>;
  const auto [ready, token] = ask_coordinator<Times>(*wiring.get(), [&](const auto& answer) {
    return engine::StatusRequest{[answer, wiring = wiring.get()](const StatusReport&) {
      const engine::Coordinator& coordinator = wiring->coordinator_actor();
      answer({coordinator.first_ready(), coordinator.first_token()});
    }};
  });
  const auto since_load = [&](actors::Nanoseconds time) {
    return time.count() == 0 ? 0.0 : engine::to_ms(time - load_begin_);
  };
  report.ready_ms = since_load(ready);
  report.first_token_ms = since_load(token);
  return report;
}

// ------------------------------------------------------------------ the public handles

Session Model::open_session(const SessionOptions& options) const {
  return impl_->open_session(options);
}
std::vector<Token> Model::tokenize(std::string_view text, const TokenizeOptions& options) const {
  return impl_->tokenizer()->encode(text,
                                    {options.parse_special, options.add_bos, options.add_eos});
}
std::string Model::piece(Token token) const { return impl_->tokenizer()->piece(token, true); }
const ModelInfo& Model::info() const { return impl_->info(); }

Runtime::Runtime(Config config, std::function<void(std::string_view)> notice)
    : impl_(std::make_shared<RuntimeImpl>(std::move(config), std::move(notice))) {}

Runtime::~Runtime() { impl_->shut_down(); }

Model Runtime::load(const std::string& file) {
  impl_->load(file);
  return Model(impl_);
}

LoadReport Runtime::load_report() const { return impl_->load_report(); }

DeviceSummary Runtime::device() const { return impl_->loaded()->device(); }

void Runtime::start_trace() {
  impl_->timeline().clear();
  impl_->timeline().enable(true);
}

void Runtime::write_trace(const std::string& file, bool clear) {
  if (Result<void> written = impl_->timeline().write_chrome_json(file); !written) {
    throw Exception(std::move(written.error()));
  }
  if (clear) impl_->timeline().clear();
}

}  // namespace mzcache
