#include "executor/ranks/mpi_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "executor/communication/group_communicator.h"
#include "executor/communication/mailboxes.h"
#include "executor/ranks/mpi_library.h"
#include "executor/ranks/mpi_messages.h"
#include "executor/ranks/watchdog.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kOwnTag = std::numeric_limits<std::int64_t>::min();

// Rank r of R has the endpoints from r·n/R on.
std::vector<int> ranks_of_endpoints(int endpoints, int ranks) {
  std::vector<int> rank_of;
  for (int r = 0; r < ranks; ++r) {
    const auto end = static_cast<std::size_t>(std::int64_t{endpoints} * (r + 1) / ranks);
    rank_of.resize(end, r);
  }
  return rank_of;
}

// What transports, the world and its watchdog share.
struct Shared {
  Shared(const MpiFunctions& mpi, int endpoints, int ranks)
      : rank_of(ranks_of_endpoints(endpoints, ranks)), local(endpoints), remote(mpi, rank_of, local) {
    for (int e = 0; e < endpoints; ++e) names.push_back(fmt::format("device {}", e));
  }

  [[nodiscard]] std::vector<int> endpoints_of(int rank) const {
    std::vector<int> own;
    for (int e = 0; e < local.endpoints(); ++e) {
      if (rank_of[static_cast<std::size_t>(e)] == rank) own.push_back(e);
    }
    return own;
  }

  std::string name_of(int rank) {
    const std::vector<int> own = endpoints_of(rank);
    const std::scoped_lock lock(mutex);
    std::string devices = names[static_cast<std::size_t>(own.front())];
    if (own.size() > 1) devices += " to " + names[static_cast<std::size_t>(own.back())];
    return fmt::format("rank {} ({} on host {})", rank, devices, hosts[static_cast<std::size_t>(rank)]);
  }

  void abort(const std::string& reason) {
    local.abort(reason);
    const std::scoped_lock lock(mutex);
    if (watchdog) watchdog->announce(reason);
  }

  // Aborts, and returns when no rank reads any more what this one was sending: MPI takes long messages from
  // the memory of the sender.
  void stop(const std::string& reason) {
    abort(reason);
    Watchdog* watching = nullptr;
    {
      const std::scoped_lock lock(mutex);
      watching = watchdog.get();
    }
    if (watching != nullptr) watching->wait_for_stop();
  }

  std::vector<int> rank_of;
  Mailboxes local;
  MpiMessages remote;
  std::vector<std::string> hosts;  // of ranks
  std::mutex mutex;
  std::vector<std::string> names;      // of endpoints
  std::unique_ptr<Watchdog> watchdog;  // may be absent at start and end
};

class MpiTransport : public Transport {
 public:
  MpiTransport(std::shared_ptr<Shared> shared, int endpoint)
      : shared_(std::move(shared)), endpoint_(endpoint) {}

  [[nodiscard]] int endpoint() const override { return endpoint_; }
  [[nodiscard]] int endpoints() const override { return shared_->local.endpoints(); }
  int channel(std::span<const int> members) override { return shared_->remote.channel(members); }
  void abort(const std::string& reason) override { shared_->abort(reason); }
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                const MessageLabel& label) override;

 private:
  [[nodiscard]] bool is_local(int peer) const {
    return shared_->rank_of[static_cast<std::size_t>(peer)] ==
           shared_->rank_of[static_cast<std::size_t>(endpoint_)];
  }
  void wait(Mailboxes::Exchange& local, const MpiMessages::Exchange& remote);

  std::shared_ptr<Shared> shared_;
  int endpoint_;
};

void MpiTransport::exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                            const MessageLabel& label) {
  std::vector<Outgoing> outgoing(out.begin(), out.end());
  std::vector<Incoming> incoming(in.begin(), in.end());
  const auto remote_out =
      std::partition(outgoing.begin(), outgoing.end(), [&](const Outgoing& m) { return is_local(m.to); });
  const auto remote_in =
      std::partition(incoming.begin(), incoming.end(), [&](const Incoming& m) { return is_local(m.from); });
  MpiMessages::Exchange remote;
  try {
    shared_->remote.post(remote, endpoint_, {remote_out, outgoing.end()}, {remote_in, incoming.end()}, label);
    Mailboxes::Exchange local(shared_->local, endpoint_, {outgoing.begin(), remote_out},
                              {incoming.begin(), remote_in}, label);
    wait(local, remote);
  } catch (const DeviceError& error) {
    // MPI may complain of a lost peer a moment before the watchdog can say which one and what it did.
    for (int i = 0; i < 100 && !shared_->local.aborted(); ++i) std::this_thread::sleep_for(10ms);
    shared_->stop(error.what());
    shared_->local.throw_if_aborted();
  } catch (const std::exception& error) {
    shared_->stop(error.what());
    throw;
  }
}

// Polls often at first and ever less after: there may be more ranks than cores.
void MpiTransport::wait(Mailboxes::Exchange& local, const MpiMessages::Exchange& remote) {
  bool arrived = false;
  for (int round = 0; !arrived; ++round) {
    arrived = shared_->remote.advance(remote);
    if (!arrived && round < 50) std::this_thread::yield();
    if (!arrived && round >= 50) {
      const auto pause = std::min<std::chrono::microseconds>(20us * (round / 50), 200us);
      // Local messages are served at once; without any this returns at once, too.
      if (local.wait_for(pause)) std::this_thread::sleep_for(pause);
    }
  }
  local.wait();
}

class MpiWorld : public World {
 public:
  MpiWorld(const MpiFunctions& mpi, int rank, int ranks, int endpoints);
  ~MpiWorld() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return ranks_; }
  [[nodiscard]] int endpoints() const override { return shared_->local.endpoints(); }
  [[nodiscard]] int rank_of(int endpoint) const override {
    return shared_->rank_of[static_cast<std::size_t>(endpoint)];
  }
  [[nodiscard]] std::string host_of(int rank) const override {
    return shared_->hosts[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::vector<int> own_endpoints() const override { return shared_->endpoints_of(rank_); }
  std::shared_ptr<Transport> transport(int endpoint) override;
  void name_endpoints(const std::vector<std::string>& names) override;
  void set_last_task(const std::string& text) override { shared_->watchdog->set_last_task(text); }
  void barrier() override { gather_text(""); }
  std::vector<std::string> gather_text(const std::string& text) override;
  void abort(const std::string& reason) override { shared_->abort(reason); }

 private:
  const MpiFunctions& mpi_;
  int rank_;
  int ranks_;
  std::shared_ptr<Shared> shared_;
  std::vector<int> firsts_;  // the first endpoint of every rank
};

MpiWorld::MpiWorld(const MpiFunctions& mpi, int rank, int ranks, int endpoints)
    : mpi_(mpi), rank_(rank), ranks_(ranks), shared_(std::make_shared<Shared>(mpi, endpoints, ranks)) {
  for (int r = 0; r < ranks; ++r) firsts_.push_back(shared_->endpoints_of(r).front());
  shared_->hosts = gather_text(host_name());
  // The watchdog may outlive the world.
  Watchdog::Duties duties{rank, [shared = shared_](int peer) { return shared->name_of(peer); },
                          [shared = shared_](const std::string& reason) { shared->local.abort(reason); }};
  shared_->watchdog = std::make_unique<Watchdog>(
      std::move(duties), [this](const std::string& text) { return gather_text(text); });
}

MpiWorld::~MpiWorld() {
  if (std::uncaught_exceptions() > 0)
    shared_->abort(fmt::format("{} stopped because of an error", shared_->name_of(rank_)));
  bool finished = false;
  try {
    barrier();
    // The watchdog still watches: a rank that dies now would let MPI wait for ever.
    mpi_.finish();
    finished = true;
    shared_->local.abort("the world of all ranks has been closed");
  } catch (const std::exception&) {
    // Aborted: the others know, and MPI must not be called any more.
  }
  std::unique_ptr<Watchdog> watchdog;
  {
    const std::scoped_lock lock(shared_->mutex);
    watchdog = std::move(shared_->watchdog);
  }
  // An aborted process is watched until it ends, as MPI was not shut down in order.
  if (!finished) (void)watchdog.release();
}

std::shared_ptr<Transport> MpiWorld::transport(int endpoint) {
  if (endpoint < 0 || endpoint >= endpoints() || rank_of(endpoint) != rank_)
    throw InternalError(fmt::format("rank {} has no device {}", rank_, endpoint));
  return std::make_shared<MpiTransport>(shared_, endpoint);
}

void MpiWorld::name_endpoints(const std::vector<std::string>& names) {
  if (names.size() != static_cast<std::size_t>(endpoints()))
    throw InternalError(fmt::format("{} names for {} devices", names.size(), endpoints()));
  const std::scoped_lock lock(shared_->mutex);
  shared_->names = names;
}

std::vector<std::string> MpiWorld::gather_text(const std::string& text) {
  const std::shared_ptr<Transport> own = transport(firsts_[static_cast<std::size_t>(rank_)]);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks_));
  const auto size = static_cast<std::int64_t>(text.size());
  group_communicator(own, firsts_)->all_gather(&size, sizes.data(), 1, DataType::Int64, kOwnTag);

  std::vector<std::string> texts;
  for (const std::int64_t bytes : sizes) texts.emplace_back(static_cast<std::size_t>(bytes), '\0');
  texts[static_cast<std::size_t>(rank_)] = text;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int r = 0; r < ranks_; ++r) {
    const auto peer = static_cast<std::size_t>(r);
    if (r == rank_) continue;
    if (!text.empty()) out.push_back({firsts_[peer], std::as_bytes(std::span(text))});
    if (!texts[peer].empty()) in.push_back({firsts_[peer], std::as_writable_bytes(std::span(texts[peer]))});
  }
  own->exchange(out, in, {own->channel(firsts_), kOwnTag + 1, 0});
  return texts;
}

}  // namespace

std::string started_by_another_mpi(int ranks) {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* const size = std::getenv(name);
    if (ranks > 1 || size == nullptr || std::atoi(size) <= 1) continue;
    return fmt::format(
        "{} is {} and MPI knows of one rank only: libpipesim_mpi.so was built with another MPI than that of "
        "the command that has started this process",
        name, size);
  }
  return "";
}

bool started_by_mpi() {
  const std::vector<const char*> signs = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::any_of(signs.begin(), signs.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

std::unique_ptr<World> open_mpi_world(int endpoints) {
  static std::atomic<bool> opened{false};
  if (opened.exchange(true)) throw InternalError("MPI was started twice");
  const MpiFunctions& mpi = load_mpi_library();
  int rank = 0;
  int ranks = 0;
  if (const char* error = mpi.start(&rank, &ranks))
    throw DeviceError(fmt::format("can't start MPI: {}", error));
  if (const std::string other = started_by_another_mpi(ranks); !other.empty()) {
    mpi.finish();
    throw InputError(other);
  }
  if (endpoints == 0) endpoints = ranks;
  if (ranks > endpoints) {
    mpi.finish();
    throw InputError(
        fmt::format("mpirun has started {} ranks for {} devices; at most one rank per device is allowed",
                    ranks, endpoints));
  }
  return std::make_unique<MpiWorld>(mpi, rank, ranks, endpoints);
}

}  // namespace pipesim
