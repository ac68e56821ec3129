#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "executor/ranks/frames.h"
#include "executor/ranks/peer_sockets.h"
#include "executor/ranks/rendezvous.h"

namespace pipesim {

/// A socket that listens at the port of `place`: on this host only if `place` names a loopback address, else
/// at all addresses of IPv6 and IPv4, as the name of a host often means another address on the host itself.
/// DeviceError when it can't, as when the port is in use.
Descriptor listen_at_place(const RendezvousPlace& place);

/// The next connection to it, if there is one: non-blocking, and closed when its host vanishes for 20 s.
Descriptor accept_at_place(const Descriptor& listener);

struct ConnectAttempt {
  Descriptor connection;  ///< as accept_at_place; none when it failed
  std::string reason;     ///< why
};

/// Tries every address of the place's host once, each for at most 3 s. The time to look up the host's name is
/// added to that.
ConnectAttempt connect_to_place(const RendezvousPlace& place, std::chrono::steady_clock::time_point deadline);

/// Frames over a non-blocking connection.
class FramedConnection {
 public:
  FramedConnection() = default;
  explicit FramedConnection(Descriptor connection) : connection_(std::move(connection)) {}

  [[nodiscard]] int number() const { return connection_.number(); }
  [[nodiscard]] bool is_open() const { return number() >= 0; }
  void close() { connection_ = Descriptor(); }

  /// Sends what goes out at once and keeps the rest for flush(). A lost connection shows in read() only.
  void send(std::shared_ptr<const std::string> bytes);
  void send(const Frame& frame) { send(std::make_shared<const std::string>(encoded(frame))); }
  void flush();
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }

  /// Takes in what has arrived; false when the connection has ended.
  bool read();
  /// Returns the next whole frame, like FrameReader::next.
  std::optional<Frame> next(std::size_t most_bytes) { return reader_.next(most_bytes); }

 private:
  Descriptor connection_;
  FrameReader reader_;
  std::deque<std::shared_ptr<const std::string>> unsent_;
  std::size_t sent_ = 0;  // bytes of the first one
};

}  // namespace pipesim
