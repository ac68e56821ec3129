#include "executor/ranks/tcp_meeting.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <list>
#include <thread>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using namespace std::chrono_literals;
using MeetingClock = std::chrono::steady_clock;

constexpr std::string_view kMagic("pipesim\x1", 8);
constexpr std::uint32_t kProtocol = 1;
constexpr std::size_t kMostVisitors = 128;
constexpr std::size_t kLongestAnswer = 4096;
constexpr auto kAnswerLimit = 5s;

// The first bytes of a connection, sent by whoever connects.
struct Greeting {
  char magic[8];
  std::uint32_t protocol;
  std::int32_t rank;
  std::int32_t size;
  char host[108];
};

Greeting greeting_of(const RendezvousOptions& options) {
  Greeting greeting{{}, kProtocol, options.rank, options.size, {}};
  std::memcpy(greeting.magic, kMagic.data(), kMagic.size());
  host_name().copy(greeting.host, sizeof(greeting.host) - 1);
  return greeting;
}

int milliseconds_until(MeetingClock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MeetingClock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

// Rank 0, while it waits for the others.
class Reception {
 public:
  Reception(const RendezvousPlace& place, const RendezvousOptions& options)
      : place_(place), options_(options), met_(static_cast<std::size_t>(options.size)) {
    met_[0].host = host_name();
  }
  std::vector<MetRank> await_all();

 private:
  // Somebody who has connected, until it is known who that is.
  struct Visitor {
    Descriptor connection;
    std::string received;
  };

  [[nodiscard]] std::vector<int> missing() const;
  void wait(const Descriptor& listener, MeetingClock::time_point deadline);
  void forget_lost(std::size_t rank);
  bool hear(Visitor& visitor);
  void admit(Visitor& visitor);
  [[nodiscard]] std::string objection(const Greeting& greeting, const std::string& host) const;
  void tell_all(const Frame& frame);

  const RendezvousPlace& place_;
  const RendezvousOptions& options_;
  std::vector<MetRank> met_;
  std::list<Visitor> visitors_;
};

std::vector<MetRank> Reception::await_all() {
  if (options_.size == 1) return std::move(met_);
  const auto deadline = MeetingClock::now() + options_.limit;
  const Descriptor listener = listen_at_place(place_);
  while (!missing().empty()) {
    if (MeetingClock::now() >= deadline) {
      const std::string text = did_not_come(missing(), options_.size, place_.str(), options_.limit);
      tell_all({Frame::Kind::Failure, text});
      throw DeviceError(text);
    }
    wait(listener, deadline);
  }
  tell_all({Frame::Kind::Met, met_[0].host});
  return std::move(met_);
}

std::vector<int> Reception::missing() const {
  std::vector<int> ranks;
  for (std::size_t r = 1; r < met_.size(); ++r) {
    if (!met_[r].connection.is_open()) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

void Reception::wait(const Descriptor& listener, MeetingClock::time_point deadline) {
  std::vector<pollfd> waiting{{listener.number(), POLLIN, 0}};
  // Negative numbers are passed over.
  for (const MetRank& met : met_) waiting.push_back({met.connection.number(), POLLIN, 0});
  for (const Visitor& visitor : visitors_) waiting.push_back({visitor.connection.number(), POLLIN, 0});
  if (::poll(waiting.data(), waiting.size(), milliseconds_until(deadline)) <= 0) return;
  auto at = waiting.begin() + 1;
  for (std::size_t r = 0; r < met_.size(); ++r, ++at) {
    if (at->revents != 0) forget_lost(r);
  }
  for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++at) {
    visitor = at->revents != 0 && !hear(*visitor) ? visitors_.erase(visitor) : std::next(visitor);
  }
  if (waiting.front().revents == 0) return;
  Descriptor connection = accept_at_place(listener);
  if (connection.number() >= 0) visitors_.push_back({std::move(connection), ""});
  if (visitors_.size() > kMostVisitors) visitors_.pop_front();
}

// Ranks say nothing before all have met, so that this one has ended. Its launcher may start it again.
void Reception::forget_lost(std::size_t rank) {
  if (!met_[rank].connection.read()) met_[rank].connection.close();
}

// Whether to listen on to it.
bool Reception::hear(Visitor& visitor) {
  Greeting greeting{};
  std::string& received = visitor.received;
  const ssize_t count = recv(visitor.connection.number(), &greeting, sizeof(greeting) - received.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) return false;
  received.append(reinterpret_cast<const char*>(&greeting), static_cast<std::size_t>(count));
  const std::size_t known = std::min(received.size(), kMagic.size());
  if (received.substr(0, known) != kMagic.substr(0, known)) return false;
  if (received.size() < sizeof(greeting)) return true;
  admit(visitor);
  return false;
}

void Reception::admit(Visitor& visitor) {
  Greeting greeting{};
  std::memcpy(&greeting, visitor.received.data(), sizeof(greeting));
  greeting.host[sizeof(greeting.host) - 1] = '\0';
  const std::string host = greeting.host;
  const std::string refusal = objection(greeting, host);
  FramedConnection connection(std::move(visitor.connection));
  if (!refusal.empty()) return connection.send({Frame::Kind::Refused, refusal});
  connection.send({Frame::Kind::Accepted, std::string(kMagic)});
  MetRank& met = met_[static_cast<std::size_t>(greeting.rank)];
  met.connection = std::move(connection);
  met.host = host;
}

std::string Reception::objection(const Greeting& greeting, const std::string& host) const {
  if (greeting.protocol != kProtocol)
    return fmt::format("rank 0 at {} is another version of pipesim than rank {}", place_.str(),
                       greeting.rank);
  if (greeting.size != options_.size || greeting.rank < 1 || greeting.rank >= options_.size) {
    return fmt::format("rank {} of {} does not belong to the {} ranks that meet at {}", greeting.rank,
                       greeting.size, options_.size, place_.str());
  }
  const MetRank& met = met_[static_cast<std::size_t>(greeting.rank)];
  if (!met.connection.is_open()) return "";
  return fmt::format("rank {} has come to {} twice, from hosts {} and {}", greeting.rank, place_.str(),
                     met.host, host);
}

void Reception::tell_all(const Frame& frame) {
  for (MetRank& met : met_) met.connection.send(frame);
}

// None when the connection ends, holds something else, or nothing comes.
std::optional<Frame> await_frame(FramedConnection& connection, MeetingClock::time_point deadline) {
  try {
    while (true) {
      if (std::optional<Frame> frame = connection.next(kLongestAnswer)) return frame;
      pollfd waiting{connection.number(), POLLIN, 0};
      const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0 || !connection.read()) return connection.next(kLongestAnswer);
    }
  } catch (const DeviceError&) {
    return std::nullopt;
  }
}

void greet(FramedConnection& connection, const RendezvousOptions& options) {
  const Greeting greeting = greeting_of(options);
  connection.send(
      std::make_shared<const std::string>(reinterpret_cast<const char*>(&greeting), sizeof(greeting)));
}

MetRank await_meeting(FramedConnection connection, const RendezvousPlace& place,
                      const RendezvousOptions& options) {
  // Rank 0 came before, so that its time ends before this.
  const std::optional<Frame> frame =
      await_frame(connection, MeetingClock::now() + options.limit + kAnswerLimit);
  if (frame && frame->kind == Frame::Kind::Met) return {std::move(connection), frame->body};
  if (frame && frame->kind == Frame::Kind::Failure) throw DeviceError(frame->body);
  throw DeviceError(fmt::format("rank 0 died before all {} ranks had come to {}", options.size, place.str()));
}

}  // namespace

std::vector<MetRank> await_ranks(const RendezvousPlace& place, const RendezvousOptions& options) {
  return Reception(place, options).await_all();
}

MetRank reach_first_rank(const RendezvousPlace& place, const RendezvousOptions& options) {
  const auto deadline = MeetingClock::now() + options.limit;
  std::string reason;
  auto pause = 5ms;
  do {
    ConnectAttempt attempt = connect_to_place(place, deadline);
    reason = attempt.reason;
    if (attempt.connection.number() >= 0) {
      FramedConnection connection(std::move(attempt.connection));
      greet(connection, options);
      const auto answer = await_frame(connection, std::min(deadline, MeetingClock::now() + kAnswerLimit));
      if (answer && answer->kind == Frame::Kind::Refused) throw DeviceError(answer->body);
      if (answer && answer->kind == Frame::Kind::Accepted && answer->body == kMagic)
        return await_meeting(std::move(connection), place, options);
      reason = "what listens there does not answer as rank 0";
    }
    std::this_thread::sleep_for(std::min<MeetingClock::duration>(pause, deadline - MeetingClock::now()));
    pause = std::min(2 * pause, 200ms);
  } while (MeetingClock::now() < deadline);
  throw DeviceError(did_not_come({0}, options.size, place.str(), options.limit) + ": " + reason);
}

}  // namespace pipesim
