// How an Asio handler of any kind becomes something the runtime can complete from its own threads.
// Not for applications.
#pragma once

#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/execution/outstanding_work.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "mzcache/messages.h"

namespace mzcache {
class RuntimeImpl;
}

namespace mzcache::detail {

// How a message that is under way is named when its cancellation slot fires. The flag is for the
// case that the cancellation reaches the runtime before the message: they may come from two
// threads.
struct RequestHandle {
  std::atomic<std::uint64_t> id{0};  // set by start()
  std::atomic<bool> cancelled{false};
};

// One pending message: completed exactly once, from any thread; the handler runs on its executor.
template <class Report>
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void complete(std::error_code error, Report report) = 0;
  // Runs `work` on the handler's executor, in order with other posts and before complete().
  virtual void post(std::function<void()> work) = 0;
  std::shared_ptr<RequestHandle> request = std::make_shared<RequestHandle>();
};
template <class Report>
using CompletionPtr = std::shared_ptr<Completion<Report>>;

// Implemented by the library. A request that is cancelled still completes, with kCancelled or its
// partial result.
void start(const std::shared_ptr<RuntimeImpl>& impl, Evict message,
           const CompletionPtr<EvictReport>&);
void start(const std::shared_ptr<RuntimeImpl>& impl, Restore message,
           const CompletionPtr<RestoreReport>&);
void start(const std::shared_ptr<RuntimeImpl>& impl, Generate message,
           const CompletionPtr<Answer>&);
void start(const std::shared_ptr<RuntimeImpl>& impl, Evaluate message,
           const CompletionPtr<LogitRows>&);
void start(const std::shared_ptr<RuntimeImpl>& impl, Status message,
           const CompletionPtr<StatusReport>&);
void start(const std::shared_ptr<RuntimeImpl>& impl, Reset message, const CompletionPtr<Done>&);
void cancel(const std::weak_ptr<RuntimeImpl>& impl, std::uint64_t request);

template <class Report, class Handler>
class HandlerCompletion final : public Completion<Report> {
  // An executor that counts as work until the handler ran.
  static auto tracked_executor(const Handler& handler) {
    return asio::prefer(asio::get_associated_executor(handler),
                        asio::execution::outstanding_work.tracked);
  }

 public:
  explicit HandlerCompletion(Handler handler)
      : executor_(tracked_executor(handler)), handler_(std::move(handler)) {}

  void complete(std::error_code error, Report report) override {
    auto executor = executor_;
    asio::post(executor,
               [handler = std::move(handler_), error, report = std::move(report)]() mutable {
                 std::move(handler)(error, std::move(report));
               });
  }
  void post(std::function<void()> work) override { asio::post(executor_, std::move(work)); }

 private:
  decltype(tracked_executor(std::declval<const Handler&>())) executor_;
  Handler handler_;
};

template <class Report, class Handler>
CompletionPtr<Report> make_completion(Handler handler, const std::shared_ptr<RuntimeImpl>& impl) {
  auto slot = asio::get_associated_cancellation_slot(handler);
  auto completion = std::make_shared<HandlerCompletion<Report, Handler>>(std::move(handler));
  if (slot.is_connected()) {
    slot.assign([weak = std::weak_ptr<RuntimeImpl>(impl),
                 request = completion->request](asio::cancellation_type) {
      request->cancelled.store(true);
      cancel(weak, request->id.load());
    });
  }
  return completion;
}

}  // namespace mzcache::detail
