#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// Where ranks meet: rank 0 listens there.
struct RendezvousPlace {
  std::string host;
  int port = 0;

  bool operator==(const RendezvousPlace&) const = default;
  /// "tcp://HOST:PORT", an IPv6 address in brackets.
  [[nodiscard]] std::string str() const;
};

/// InputError: `rendezvous "tcp://a": found no port; allowed are tcp://HOST:PORT and mpi`. The caller handles
/// mpi itself, as a World needs no place.
RendezvousPlace parse_rendezvous(std::string_view text);

struct RendezvousOptions {
  int rank = 0;
  int size = 1;
  /// The time limit for ranks to meet.
  std::chrono::milliseconds limit = std::chrono::seconds(60);
  /// The time limit for every call after that, as some ranks may have more to do than others. Without it,
  /// `limit` holds.
  std::optional<std::chrono::milliseconds> call_limit = {};
  [[nodiscard]] std::chrono::milliseconds limit_of_calls() const { return call_limit.value_or(limit); }
  /// Called once for each other rank that dies, within 2 s (20 s when its host vanishes), even while this
  /// process makes no call; from a thread of the rendezvous, which it must neither close nor call, and which
  /// serves nobody meanwhile. The first death is the cause of what follows. Must not throw.
  std::function<void(int rank, const std::string& host)> on_death;
};

/// Processes that agree on texts: ids of communicators, names of hosts, results. Every rank makes the same
/// calls in the same order, one at a time.
///
/// TCP connections between rank 0 and every other rank stay: a rank whose connection ends without a goodbye
/// has died, and rank 0 tells all others.
///
/// DeviceError when a rank dies, leaves, or does not make a call within the time limit, which names it:
/// `ranks 2 and 5 of 8 did not come to "nccl id" at tcp://host:29500 within 60 s`. All later calls throw the
/// same. InternalError when ranks make different calls.
class Rendezvous {
 public:
  /// A call of all ranks, with the same place, size and limit. DeviceError when not all come within the
  /// limit, with the missing ranks, or when rank 0 can't listen. A rank that reached rank 0 late may wait as
  /// long again.
  Rendezvous(const RendezvousPlace& place, const RendezvousOptions& options);
  /// Waits for no other rank; some may still be reading the result of the last call. A rank that closes it
  /// while an error is being thrown counts as dead.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// The texts of all ranks, in rank order; of at most 1 GB together. `name` is for messages.
  std::vector<std::string> all_gather(const std::string& mine, const std::string& name);
  /// The root's text.
  std::string broadcast(const std::string& text, int root, const std::string& name);
  void barrier(const std::string& name);

 private:
  class Connections;
  int rank_, size_;
  std::unique_ptr<Connections> connections_;
};

/// "ranks 2 and 5 of 8 did not come to tcp://host:29500 within 60 s"; at most 16 ranks by number.
std::string did_not_come(const std::vector<int>& missing, int size, const std::string& where,
                         std::chrono::milliseconds limit);

}  // namespace pipesim
