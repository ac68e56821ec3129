#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "executor/ranks/rendezvous.h"
#include "executor/ranks/tcp_meeting.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using namespace std::chrono_literals;
using CallClock = std::chrono::steady_clock;

constexpr std::size_t kLongestMessage = std::size_t{1} << 30;
constexpr auto kExplained = 5s;  // after the limit, within which rank 0 says who is missing
constexpr auto kFarewell = 5s;   // to send what others still wait for

}  // namespace

// Rank 0 gathers the texts of a call and sends them to all; the others are connected to it alone. A thread of
// each rank reads and writes.
class Rendezvous::Connections {
 public:
  Connections(const RendezvousPlace& place, const RendezvousOptions& options);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  // Gathers texts like all_gather, but does not check whether the names in them agree.
  std::vector<std::string> exchange(const std::string& mine, const std::string& name);

 private:
  enum class Leaving { No, WithGoodbye, Silently };

  void wake() const;

  // All that follows belongs to the thread.
  void run();
  void wait_for_news();
  void read_from(std::size_t rank);
  void understand(std::size_t rank, const Frame& frame);
  void contribute(std::size_t rank, const std::string& text);
  void fail_if_one_has_left();
  void fail_if_late();
  [[nodiscard]] std::vector<int> missing_in_call() const;
  [[nodiscard]] std::string name_of_call() const;
  [[nodiscard]] std::string name_of(std::size_t rank) const;
  void lose(std::size_t rank);
  void leave(std::size_t rank);
  void mourn(int rank, const std::string& host);
  void deliver(const std::string& joined);
  void fail(const std::string& reason);
  void fail_all(const std::string& reason);
  void tell_all(const Frame& frame);
  void flush_all();

  RendezvousPlace place_;
  RendezvousOptions options_;
  std::vector<MetRank> peers_;                    // by rank; of the other ranks, rank 0 alone
  std::vector<bool> left_;                        // with a goodbye
  std::vector<std::optional<std::string>> call_;  // at rank 0, texts of the call under way, if any
  CallClock::time_point deadline_;                // of the call
  int exceptions_ = std::uncaught_exceptions();   // when it was opened

  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  std::optional<std::string> posted_;
  std::optional<std::vector<std::string>> result_;
  std::string failure_;
  Leaving leaving_ = Leaving::No;

  Descriptor woken_;
  std::thread thread_;
};

Rendezvous::Connections::Connections(const RendezvousPlace& place, const RendezvousOptions& options)
    : place_(place), options_(options), woken_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (woken_.number() < 0) throw DeviceError(fmt::format("{}: {}", place.str(), std::strerror(errno)));
  if (options_.rank == 0) {
    peers_ = await_ranks(place, options);
  } else {
    peers_.push_back(reach_first_rank(place, options));
  }
  left_.resize(peers_.size());
  thread_ = std::thread([this] { run(); });
}

Rendezvous::Connections::~Connections() {
  {
    const std::scoped_lock lock(mutex_);
    leaving_ = std::uncaught_exceptions() > exceptions_ ? Leaving::Silently : Leaving::WithGoodbye;
  }
  wake();
  thread_.join();
}

std::vector<std::string> Rendezvous::Connections::exchange(const std::string& mine, const std::string& name) {
  std::unique_lock lock(mutex_);
  if (failure_.empty()) {
    posted_ = mine;
    wake();
    changed_.wait_until(lock, CallClock::now() + options_.limit_of_calls() + kExplained,
                        [&] { return result_ || !failure_.empty(); });
  }
  if (result_) return *std::exchange(result_, std::nullopt);
  // Rank 0 itself hangs.
  if (failure_.empty())
    failure_ = did_not_come({0}, options_.size, fmt::format("\"{}\" at {}", name, place_.str()),
                            options_.limit_of_calls());
  throw DeviceError(failure_);
}

void Rendezvous::Connections::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(woken_.number(), &one, sizeof(one));
}

void Rendezvous::Connections::run() {
  Leaving leaving = Leaving::No;
  while (leaving == Leaving::No) {
    wait_for_news();
    fail_if_late();
    std::optional<std::string> text;
    {
      const std::scoped_lock lock(mutex_);
      text = std::exchange(posted_, std::nullopt);
      leaving = leaving_;
    }
    if (text && options_.rank == 0) contribute(0, *text);
    if (text && options_.rank != 0) peers_[0].connection.send({Frame::Kind::Text, *text});
  }
  if (leaving == Leaving::Silently) return;
  tell_all({Frame::Kind::Bye, ""});
  flush_all();
}

void Rendezvous::Connections::wait_for_news() {
  std::vector<pollfd> waiting;
  for (const MetRank& peer : peers_) {
    const short events = peer.connection.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    waiting.push_back({peer.connection.number(), events, 0});  // negative numbers are passed over
  }
  waiting.push_back({woken_.number(), POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - CallClock::now());
  const int patience = call_.empty() ? -1 : static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  if (::poll(waiting.data(), waiting.size(), patience) <= 0) return;
  std::uint64_t count = 0;
  if (waiting.back().revents != 0) (void)!::read(woken_.number(), &count, sizeof(count));
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (waiting[r].revents & POLLOUT) peers_[r].connection.flush();
    if (waiting[r].revents & ~POLLOUT) read_from(r);
  }
}

void Rendezvous::Connections::read_from(std::size_t rank) {
  FramedConnection& connection = peers_[rank].connection;
  if (!connection.is_open()) return;  // lost since poll has looked
  const bool goes_on = connection.read();
  try {
    while (const std::optional<Frame> frame = connection.next(kLongestMessage)) {
      understand(rank, *frame);
      if (!connection.is_open()) return;
    }
  } catch (const DeviceError&) {
    return lose(rank);  // whoever sends such things is broken
  }
  if (!goes_on) lose(rank);
}

void Rendezvous::Connections::understand(std::size_t rank, const Frame& frame) {
  if (frame.kind == Frame::Kind::Bye) return leave(rank);
  if (options_.rank == 0) {
    if (frame.kind == Frame::Kind::Text) contribute(rank, frame.body);
    return;
  }
  if (frame.kind == Frame::Kind::Result) deliver(frame.body);
  if (frame.kind == Frame::Kind::Failure) fail(frame.body);
  if (frame.kind == Frame::Kind::Death) {
    const std::vector<std::string> texts = split_texts(frame.body, 2);
    mourn(std::stoi(texts[0]), texts[1]);
  }
}

void Rendezvous::Connections::contribute(std::size_t rank, const std::string& text) {
  if (call_.empty()) {
    call_.resize(peers_.size());
    deadline_ = CallClock::now() + options_.limit_of_calls();
  }
  call_[rank] = text;
  if (!missing_in_call().empty()) return fail_if_one_has_left();
  std::vector<std::string> texts;
  for (auto& one : std::exchange(call_, {})) texts.push_back(std::move(*one));
  const std::string joined = join_texts(texts);
  tell_all({Frame::Kind::Result, joined});
  deliver(joined);
}

void Rendezvous::Connections::fail_if_one_has_left() {
  for (const int missing : missing_in_call()) {
    const auto r = static_cast<std::size_t>(missing);
    if (left_[r]) return fail_all(fmt::format("{} has left before \"{}\"", name_of(r), name_of_call()));
  }
}

void Rendezvous::Connections::fail_if_late() {
  if (call_.empty() || CallClock::now() < deadline_) return;
  const std::string where = fmt::format("\"{}\" at {}", name_of_call(), place_.str());
  fail_all(did_not_come(missing_in_call(), options_.size, where, options_.limit_of_calls()));
}

std::vector<int> Rendezvous::Connections::missing_in_call() const {
  std::vector<int> missing;
  for (std::size_t r = 0; r < call_.size(); ++r) {
    if (!call_[r]) missing.push_back(static_cast<int>(r));
  }
  return missing;
}

// Rendezvous::all_gather puts the name of the call before each text.
std::string Rendezvous::Connections::name_of_call() const {
  const auto some =
      std::find_if(call_.begin(), call_.end(), [](const auto& text) { return text.has_value(); });
  return split_texts(**some, 2)[0];
}

std::string Rendezvous::Connections::name_of(std::size_t rank) const {
  return fmt::format("rank {} (on host {})", rank, peers_[rank].host);
}

void Rendezvous::Connections::lose(std::size_t rank) {
  peers_[rank].connection.close();
  const std::string host = peers_[rank].host;
  // Others first, as the callback may take its time.
  tell_all({Frame::Kind::Death, join_texts({std::to_string(rank), host})});
  mourn(static_cast<int>(rank), host);
}

void Rendezvous::Connections::leave(std::size_t rank) {
  peers_[rank].connection.close();
  left_[rank] = true;
  if (options_.rank != 0) return fail(fmt::format("{} has left {}", name_of(0), place_.str()));
  if (!call_.empty()) fail_if_one_has_left();
}

void Rendezvous::Connections::mourn(int rank, const std::string& host) {
  call_.clear();
  fail(fmt::format("rank {} (on host {}) died", rank, host));
  if (options_.on_death) options_.on_death(rank, host);
}

void Rendezvous::Connections::deliver(const std::string& joined) {
  std::vector<std::string> texts = split_texts(joined, static_cast<std::size_t>(options_.size));
  const std::scoped_lock lock(mutex_);
  result_ = std::move(texts);
  changed_.notify_all();
}

void Rendezvous::Connections::fail(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (failure_.empty()) failure_ = reason;
  changed_.notify_all();
}

void Rendezvous::Connections::fail_all(const std::string& reason) {
  call_.clear();
  tell_all({Frame::Kind::Failure, reason});
  fail(reason);
}

void Rendezvous::Connections::tell_all(const Frame& frame) {
  const auto bytes = std::make_shared<const std::string>(encoded(frame));
  for (MetRank& peer : peers_) peer.connection.send(bytes);
}

void Rendezvous::Connections::flush_all() {
  const auto deadline = CallClock::now() + kFarewell;
  while (CallClock::now() < deadline) {
    std::vector<pollfd> waiting;
    for (MetRank& peer : peers_) {
      if (peer.connection.is_open()) peer.connection.flush();
      if (peer.connection.has_unsent()) waiting.push_back({peer.connection.number(), POLLOUT, 0});
    }
    if (waiting.empty()) return;
    ::poll(waiting.data(), waiting.size(), 100);
  }
}

Rendezvous::Rendezvous(const RendezvousPlace& place, const RendezvousOptions& options)
    : rank_(options.rank), size_(options.size) {
  if (rank_ < 0 || rank_ >= size_)
    throw InternalError(fmt::format("there is no rank {} of {}", rank_, size_));
  connections_ = std::make_unique<Connections>(place, options);
}

Rendezvous::~Rendezvous() = default;

std::vector<std::string> Rendezvous::all_gather(const std::string& mine, const std::string& name) {
  std::vector<std::string> texts;
  std::vector<std::string> names;
  for (const std::string& joined : connections_->exchange(join_texts({name, mine}), name)) {
    std::vector<std::string> both = split_texts(joined, 2);
    names.push_back(std::move(both[0]));
    texts.push_back(std::move(both[1]));
  }
  for (std::size_t r = 0; r < names.size(); ++r) {
    if (names[r] == names[0]) continue;
    throw InternalError(fmt::format("rank {} calls \"{}\" while rank 0 calls \"{}\"", r, names[r], names[0]));
  }
  return texts;
}

std::string Rendezvous::broadcast(const std::string& text, int root, const std::string& name) {
  if (root < 0 || root >= size()) throw InternalError(fmt::format("rank {} of {} is no root", root, size()));
  return all_gather(rank() == root ? text : "", name)[static_cast<std::size_t>(root)];
}

void Rendezvous::barrier(const std::string& name) { all_gather("", name); }

}  // namespace pipesim
