#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/communication/mailboxes.h"
#include "executor/communication/transport.h"
#include "executor/ranks/mpi_functions.h"

namespace pipesim {

/// Messages between endpoints of different ranks. Their labels are far longer than MPI's tags, so MPI does
/// not match them. A short message travels together with its whole label, which includes the list of the
/// channel's members. For a long message the receiver first sends the label and a number, and the sender then
/// uses this number as the MPI tag. A number is in use for one receive at a time, so nothing can collide, and
/// long messages go straight into their place.
///
/// No thread serves this: every thread that waits moves the messages of all endpoints along.
class MpiMessages {
 public:
  /// `rank_of`: of every endpoint. Once `local` is aborted, MPI is not called any more.
  MpiMessages(const MpiFunctions& mpi, std::vector<int> rank_of, Mailboxes& local);

  int channel(std::span<const int> members);

  class Exchange {
    friend class MpiMessages;
    int left_ = 0;  // requests and labels that are waited for; guarded by the mutex
  };
  /// Posts what goes to or comes from other ranks; `exchange` must stay until it is complete or the world
  /// aborted, the memory until it is complete or all ranks have stopped.
  void post(Exchange& exchange, int endpoint, std::span<const Outgoing> out, std::span<const Incoming> in,
            const MessageLabel& label);
  /// Moves messages along, and returns whether this exchange is complete. DeviceError when aborted.
  bool advance(const Exchange& exchange);

 private:
  using Label = std::string;  // all that a message is matched by, as bytes
  enum class Kind : std::int32_t { Short, Ready };
  struct Header {
    Kind kind;
    std::int32_t slot;
    std::int64_t bytes;  // of the message
    std::int64_t label_bytes;
  };
  struct Ready {
    int rank;
    int slot;
    std::int64_t bytes;
  };
  struct Send {
    Exchange* owner;
    int rank;
    std::span<const std::byte> bytes;
  };
  struct Receive {
    Exchange* owner;
    std::span<std::byte> bytes;
  };
  struct Request {
    Exchange* owner = nullptr;
    std::vector<std::byte> buffer;  // of a control message
    int slot = -1;                  // to be freed
  };
  // Both sides of the messages that wait for the other.
  struct Meeting {
    std::deque<Send> sends;
    std::deque<Ready> readies;
    std::deque<Receive> receives;
    std::deque<std::vector<std::byte>> arrived;
    [[nodiscard]] bool empty() const {
      return sends.empty() && readies.empty() && receives.empty() && arrived.empty();
    }
  };

  [[nodiscard]] Label label_of(const MessageLabel& label, int from, int to) const;
  void post_send(const Label& label, const Send& send);
  void post_receive(const Label& label, int from_rank, const Receive& receive);
  void send_control(Exchange& owner, int rank, Header header, const Label& label,
                    std::span<const std::byte> payload);
  void start_send(const Send& send, const Ready& ready);
  void take_control(int from, std::span<const std::byte> message);
  void take_short(const Label& label, std::span<const std::byte> payload);
  void deliver(const Receive& receive, std::span<const std::byte> payload);
  void await_control();
  void poll();
  void check(const char* error);
  [[noreturn]] void fail_on_sizes(std::int64_t sent, std::int64_t awaited);
  int take_slot();

  const MpiFunctions& mpi_;
  std::vector<int> rank_of_;
  Mailboxes& local_;
  std::mutex mutex_;                                      // of all below, and of MPI
  std::unordered_map<int, std::vector<int>> members_of_;  // by channel
  std::unordered_map<Label, Meeting> meetings_;
  std::unordered_map<int, Request> requests_;
  std::vector<std::byte> control_;  // into which the next control message is received
  int control_request_ = -1;
  std::vector<int> free_slots_;
  int slots_ = 0;
};

}  // namespace pipesim
