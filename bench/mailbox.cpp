#include "mailbox.h"

#include <blockingconcurrentqueue.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "actors/threaded_dispatcher.h"
#include "mailbox_subject.h"

namespace mzcache::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMessages = 1'000'000;
constexpr std::uint32_t kWakes = 300;
constexpr auto kRest = std::chrono::microseconds(500);  // enough for any receiver to fall asleep

struct Small {
  std::uint64_t value = 0;
};

class CountingActor {
 public:
  using Inbox = std::variant<Small>;
  explicit CountingActor(Tally& tally) : tally_(tally) {}
  void on(Small&&) noexcept { tally_.count(); }

 private:
  Tally& tally_;
};

class ActorSubject final : public MailboxSubject {
 public:
  ActorSubject()
      : dispatcher_({}, {}, timeline_),
        port_(dispatcher_
                  .spawn<CountingActor>({actors::ActorKind::kCompressor, "bench-mailbox"}, tally)
                  .port<Small>()) {
    dispatcher_.start();
  }
  ~ActorSubject() override { dispatcher_.stop(); }
  [[nodiscard]] std::string_view name() const override { return "mzcache"; }
  void post(std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) port_.send({i});
  }

 private:
  actors::Timeline timeline_;
  actors::ThreadedDispatcher dispatcher_;
  actors::Port<Small> port_;
};

// The queue under the mailbox, used as its authors do: blocking, in bulk.
class QueueSubject final : public MailboxSubject {
 public:
  QueueSubject()
      : consumer_([this] {
          std::vector<Small> batch(64);
          for (;;) {
            const std::size_t count = queue_.wait_dequeue_bulk(batch.begin(), batch.size());
            for (std::size_t i = 0; i < count; ++i) {
              if (batch[i].value == kEnd) return;
              tally.count();
            }
          }
        }) {}
  ~QueueSubject() override {
    queue_.enqueue({kEnd});
    consumer_.join();
  }
  [[nodiscard]] std::string_view name() const override { return "moodycamel"; }
  void post(std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) queue_.enqueue({i});
  }

 private:
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  moodycamel::BlockingConcurrentQueue<Small> queue_;
  std::thread consumer_;
};

// From the first producer's start (read by itself: with fewer cores than threads nobody else knows
// it) until the last message was counted.
double messages_per_s(MailboxSubject& subject, std::uint32_t producers) {
  subject.tally.expect(kMessages);
  std::latch ready(producers);
  std::vector<Clock::time_point> begins(producers);
  std::vector<std::thread> threads;
  threads.reserve(producers);
  for (std::uint32_t i = 0; i < producers; ++i) {
    threads.emplace_back([&, i] {
      ready.arrive_and_wait();
      begins[i] = Clock::now();
      subject.post(kMessages / producers);
    });
  }
  for (auto& thread : threads) thread.join();
  const Clock::time_point end = subject.tally.wait();
  const Clock::time_point begin = *std::min_element(begins.begin(), begins.end());
  return static_cast<double>(kMessages) / std::chrono::duration<double>(end - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double wake_us(MailboxSubject& subject) {
  std::vector<double> latencies;
  for (std::uint32_t i = 0; i < kWakes; ++i) {
    subject.tally.expect(1);
    std::this_thread::sleep_for(kRest);
    const Clock::time_point begin = Clock::now();
    subject.post(1);
    const Clock::time_point end = subject.tally.wait();
    latencies.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  return median(std::move(latencies));
}

std::vector<std::unique_ptr<MailboxSubject>> subjects() {
  std::vector<std::unique_ptr<MailboxSubject>> all;
  all.push_back(std::make_unique<ActorSubject>());
  all.push_back(std::make_unique<QueueSubject>());
  if (auto caf = make_caf_subject()) all.push_back(std::move(caf));
  return all;
}

}  // namespace

std::vector<MailboxRow> bench_mailbox(std::uint32_t repeat) {
  std::vector<MailboxRow> rows;
  for (const std::uint32_t producers : {1U, 4U}) {
    std::vector<std::vector<double>> rates;
    std::vector<std::vector<double>> wakes;
    std::vector<std::string> names;
    for (std::uint32_t round = 0; round < std::max(repeat, 1U); ++round) {
      std::size_t index = 0;
      for (auto& subject : subjects()) {
        if (round == 0) {
          names.emplace_back(subject->name());
          rates.emplace_back();
          wakes.emplace_back();
        }
        rates[index].push_back(messages_per_s(*subject, producers));
        wakes[index].push_back(wake_us(*subject));
        ++index;
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      rows.push_back({names[i], producers, median(rates[i]), median(wakes[i])});
    }
  }
  return rows;
}

}  // namespace mzcache::bench
