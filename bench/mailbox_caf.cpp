// CAF beside our mailbox: an event-based actor on a thread of its own, as ours are.
#include "mailbox_subject.h"

#ifdef MZCACHE_HAVE_CAF

#include <caf/all.hpp>

namespace mzcache::bench {
namespace {

class CafSubject final : public MailboxSubject {
 public:
  CafSubject() : system_(config_), self_(spawn(system_, tally)) {}
  ~CafSubject() override { caf::anon_send_exit(self_, caf::exit_reason::user_shutdown); }
  [[nodiscard]] std::string_view name() const override { return "caf"; }
  void post(std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) caf::anon_send(self_, i);
  }

 private:
  static caf::actor spawn(caf::actor_system& system, Tally& tally) {
    return system.spawn<caf::detached>([&tally](caf::event_based_actor*) -> caf::behavior {
      return {[&tally](std::uint64_t) { tally.count(); }};
    });
  }
  caf::actor_system_config config_;
  caf::actor_system system_;
  caf::actor self_;
};

}  // namespace

std::unique_ptr<MailboxSubject> make_caf_subject() { return std::make_unique<CafSubject>(); }

}  // namespace mzcache::bench

#else

namespace mzcache::bench {

std::unique_ptr<MailboxSubject> make_caf_subject() { return nullptr; }

}  // namespace mzcache::bench

#endif
