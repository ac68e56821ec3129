#include "executor/shared_memory.h"

#include "executor/mailboxes.h"

namespace pipesim {
namespace {

class SharedMemoryTransport : public Transport {
 public:
  SharedMemoryTransport(std::shared_ptr<Mailboxes> mailboxes, int endpoint)
      : mailboxes_(std::move(mailboxes)), endpoint_(endpoint) {}

  [[nodiscard]] int endpoint() const override { return endpoint_; }
  [[nodiscard]] int endpoints() const override { return mailboxes_->endpoints(); }
  int channel(std::span<const int> members) override { return mailboxes_->channel(members); }
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                const MessageLabel& label) override {
    Mailboxes::Exchange(*mailboxes_, endpoint_, out, in, label).wait();
  }
  void abort(const std::string& reason) override { mailboxes_->abort(reason); }

 private:
  std::shared_ptr<Mailboxes> mailboxes_;
  int endpoint_;
};

}  // namespace

SharedMemory::SharedMemory(int endpoints) : mailboxes_(std::make_shared<Mailboxes>(endpoints)) {}

std::shared_ptr<Transport> SharedMemory::transport(int endpoint) const {
  return std::make_shared<SharedMemoryTransport>(mailboxes_, endpoint);
}

void SharedMemory::abort(const std::string& reason) { mailboxes_->abort(reason); }

}  // namespace pipesim
