#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "executor/communication/transport.h"

namespace pipesim {

/// Mailboxes of the endpoints of one process. In an endpoint's mailbox a message meets the memory that waits
/// for it. Each message is copied once, from the sender's memory into the receiver's. A short message is
/// copied by the side that comes second, so that only the other must be woken; a long one by its receiver, so
/// that receivers copy in parallel.
class Mailboxes {
 public:
  class Exchange;

  explicit Mailboxes(int endpoints);
  [[nodiscard]] int endpoints() const { return static_cast<int>(boxes_.size()); }
  int channel(std::span<const int> members);
  void abort(const std::string& reason);
  [[nodiscard]] bool aborted() const { return aborted_; }
  void throw_if_aborted() const;

 private:
  struct Key {
    MessageLabel label;
    int from;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  // One side of a message, waiting for the other.
  struct Post {
    Exchange* owner;
    const std::byte* source;  // null for one that waits to receive
    std::byte* target;
    std::size_t size;
  };
  struct Box {
    std::mutex mutex;
    std::unordered_map<Key, std::deque<Post>, KeyHash> posts;  // of one key, all are of one kind
    std::vector<Exchange*> under_way;                          // of this endpoint
  };

  Box& box(int endpoint) { return boxes_[static_cast<std::size_t>(endpoint)]; }
  void post(int to, const Key& key, const Post& mine);
  [[noreturn]] void fail_on_sizes(int to, const Key& key, const Post& mine, const Post& other);
  void complete(Exchange& exchange);
  int withdraw(int to, const Key& key, const Exchange& owner);

  std::vector<Box> boxes_;
  std::atomic<bool> aborted_{false};
  std::atomic<int> spinning_{0};  // threads
  mutable std::mutex mutex_;      // of the following
  std::string reason_;
  std::map<std::vector<int>, int> channels_;
};

/// A set of messages under way. The constructor posts them; the destructor withdraws them if they are not
/// complete. The lists, and the memory that they name, must outlive it.
class Mailboxes::Exchange {
 public:
  Exchange(Mailboxes& world, int endpoint, std::span<const Outgoing> out, std::span<const Incoming> in,
           const MessageLabel& label);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  /// Returns when all messages are complete. DeviceError after abort().
  void wait();
  /// Returns whether all messages are complete, after at most this time. DeviceError after abort().
  bool wait_for(std::chrono::microseconds duration);

 private:
  friend class Mailboxes;
  // A long message that its sender has left for this receiver to copy.
  struct Handed {
    Post source;
    std::byte* target;
  };

  Exchange(Mailboxes& world, int endpoint, const MessageLabel& label, std::span<const Outgoing> out,
           std::span<const Incoming> in);
  bool advance(std::unique_lock<std::mutex>& lock);
  void tell();
  void spin();
  void copy_handed(std::unique_lock<std::mutex>& lock);
  int withdraw();

  Mailboxes& world_;
  Box& box_;
  int endpoint_;
  std::span<const Outgoing> out_;
  std::span<const Incoming> in_;
  MessageLabel label_;
  std::atomic<bool> news_{false};  // that a thread may spin for
  int posted_ = 0;                 // messages that the constructor came to
  // The rest is guarded by the box's mutex.
  std::condition_variable changed_;
  int left_;  // messages that are not complete
  std::vector<Handed> handed_;
};

}  // namespace pipesim
