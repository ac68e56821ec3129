#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace pipesim {

struct Outgoing {
  int to;  ///< an endpoint
  std::span<const std::byte> bytes;
};

struct Incoming {
  int from;  ///< an endpoint
  std::span<std::byte> bytes;
};

/// Identifies messages between two endpoints. Messages with equal labels arrive in the order in which they
/// were sent.
struct MessageLabel {
  int channel = 0;  ///< of Transport::channel
  std::int64_t tag = 0;
  int phase = 0;  ///< the number of the exchange within a call, from 0

  bool operator==(const MessageLabel&) const = default;
};

/// One endpoint (a device) of a world of `endpoints()`. It moves bytes between itself and the others. All
/// member functions may be called from several threads at the same time.
///
/// DeviceError when a peer fails or disappears, and after abort(). InternalError when the two sides of a
/// message differ in its size.
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual int endpoint() const = 0;
  [[nodiscard]] virtual int endpoints() const = 0;

  /// The channel of a group of endpoints. Equal lists have the same channel, different lists different ones.
  /// The number is meaningful at this endpoint only; transports match channels by their lists.
  [[nodiscard]] virtual int channel(std::span<const int> members) = 0;

  /// Posts all messages at once and returns when they are complete: outgoing memory may be overwritten,
  /// incoming data has arrived. Messages may have zero bytes. Without messages it only checks for failures.
  virtual void exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                        const MessageLabel& label) = 0;

  /// Makes pending and later exchanges of the whole world throw a DeviceError with this reason. The first
  /// reason is kept.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace pipesim
