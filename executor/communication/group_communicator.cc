#include "executor/communication/group_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "executor/communication/reduction.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Below this many bytes two exchanges cost more than adding everything everywhere.
constexpr std::size_t kSmallSum = 4096;
// Above this many members the messages of everyone to everyone, n·(n − 1), cost more than a second wait.
constexpr int kFewMembers = 8;

struct Cut {
  std::int64_t begin;
  std::int64_t end;
};

// Near-equal pieces of a vector.
Cut cut_of(std::int64_t elements, int piece, int pieces) {
  return {elements * piece / pieces, elements * (piece + 1) / pieces};
}

std::span<const std::byte> bytes_at(const void* data, std::size_t offset, std::size_t size) {
  return {static_cast<const std::byte*>(data) + offset, size};
}

std::span<std::byte> bytes_at(void* data, std::size_t offset, std::size_t size) {
  return {static_cast<std::byte*>(data) + offset, size};
}

void copy_own(void* target, const void* source, std::size_t size) {
  if (size > 0 && target != source) std::memmove(target, source, size);
}

// Memory for one addend of every member, aligned for all types.
class Addends {
 public:
  Addends(int members, std::size_t bytes)
      : bytes_(bytes),
        stride_((bytes + 63) / 64 * 64),
        memory_(new std::byte[stride_ * static_cast<std::size_t>(members)]) {}
  std::span<std::byte> of(int member) {
    return {memory_.get() + stride_ * static_cast<std::size_t>(member), bytes_};
  }

 private:
  std::size_t bytes_;
  std::size_t stride_;
  std::unique_ptr<std::byte[]> memory_;
};

class GroupCommunicator : public Communicator {
 public:
  GroupCommunicator(std::shared_ptr<Transport> transport, std::vector<int> members, int rank)
      : transport_(std::move(transport)),
        members_(std::move(members)),
        rank_(rank),
        channel_(transport_->channel(members_)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(members_.size()); }

  void all_reduce(void* data, std::int64_t elements, DataType type, ReduceOperation operation,
                  std::int64_t tag) override;
  void reduce(const void* data, void* result, std::int64_t elements, DataType type, ReduceOperation operation,
              int root, std::int64_t tag) override;
  void reduce_scatter(const void* data, void* result, std::int64_t elements, DataType type,
                      ReduceOperation operation, std::int64_t tag) override;
  void all_gather(const void* data, void* result, std::int64_t elements, DataType type,
                  std::int64_t tag) override;
  void all_to_all(const void* data, void* result, std::int64_t elements, DataType type,
                  std::int64_t tag) override;
  void broadcast(void* data, std::int64_t elements, DataType type, int root, std::int64_t tag) override;
  void send(const void* data, std::int64_t elements, DataType type, int to, std::int64_t tag) override;
  void receive(void* data, std::int64_t elements, DataType type, int from, std::int64_t tag) override;
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> members) override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::int64_t tag) override;
  void abort(const std::string& reason) override { transport_->abort(reason); }

 private:
  // The messages of one exchange. Nothing is sent where there are zero bytes.
  struct Messages {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
  };
  [[nodiscard]] int endpoint(int rank) const;
  void send_to(Messages& messages, int rank, std::span<const std::byte> bytes) const;
  void receive_from(Messages& messages, int rank, std::span<std::byte> bytes) const;
  void run(const Messages& messages, std::int64_t tag, int phase = 0);
  void sum_everywhere(void* data, std::int64_t elements, DataType type, ReduceOperation operation,
                      std::int64_t tag);
  void sum_piecewise(void* data, std::int64_t elements, DataType type, ReduceOperation operation,
                     std::int64_t tag);
  void sum(Addends& received, const void* own, void* result, std::int64_t elements, DataType type,
           ReduceOperation operation) const;

  std::shared_ptr<Transport> transport_;
  std::vector<int> members_;  // endpoints
  int rank_;
  int channel_;
};

std::size_t bytes_of(std::int64_t elements, DataType type) {
  return static_cast<std::size_t>(elements * bytes_per_element(type));
}

int GroupCommunicator::endpoint(int rank) const {
  if (rank < 0 || rank >= size())
    throw InternalError(fmt::format("rank {} in a group of {} devices", rank, size()));
  return members_[static_cast<std::size_t>(rank)];
}

void GroupCommunicator::send_to(Messages& messages, int rank, std::span<const std::byte> bytes) const {
  const int to = endpoint(rank);
  if (!bytes.empty()) messages.out.push_back({to, bytes});
}

void GroupCommunicator::receive_from(Messages& messages, int rank, std::span<std::byte> bytes) const {
  const int from = endpoint(rank);
  if (!bytes.empty()) messages.in.push_back({from, bytes});
}

void GroupCommunicator::run(const Messages& messages, std::int64_t tag, int phase) {
  transport_->exchange(messages.out, messages.in, {channel_, tag, phase});
}

void GroupCommunicator::sum(Addends& received, const void* own, void* result, std::int64_t elements,
                            DataType type, ReduceOperation operation) const {
  std::vector<const void*> addends;
  for (int r = 0; r < size(); ++r) addends.push_back(r == rank_ ? own : received.of(r).data());
  reduce_in_order(addends, result, elements, type, operation);
}

void GroupCommunicator::all_reduce(void* data, std::int64_t elements, DataType type,
                                   ReduceOperation operation, std::int64_t tag) {
  if (bytes_of(elements, type) > kSmallSum) return sum_piecewise(data, elements, type, operation, tag);
  if (size() <= kFewMembers) return sum_everywhere(data, elements, type, operation, tag);
  reduce(data, data, elements, type, operation, 0, tag);
  broadcast(data, elements, type, 0, tag);
}

void GroupCommunicator::sum_everywhere(void* data, std::int64_t elements, DataType type,
                                       ReduceOperation operation, std::int64_t tag) {
  const std::size_t bytes = bytes_of(elements, type);
  Addends received(size(), bytes);
  Messages messages;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    send_to(messages, r, bytes_at(data, 0, bytes));
    receive_from(messages, r, received.of(r));
  }
  run(messages, tag);
  sum(received, data, data, elements, type, operation);
}

void GroupCommunicator::sum_piecewise(void* data, std::int64_t elements, DataType type,
                                      ReduceOperation operation, std::int64_t tag) {
  const auto piece = [&](int r) {
    const Cut cut = cut_of(elements, r, size());
    return bytes_at(data, bytes_of(cut.begin, type), bytes_of(cut.end - cut.begin, type));
  };
  const std::span<std::byte> mine = piece(rank_);
  Addends received(size(), mine.size());
  Messages scatter;
  Messages gather;
  for (int step = 1; step < size(); ++step) {
    const int r = (rank_ + step) % size();
    send_to(scatter, r, piece(r));
    receive_from(scatter, r, received.of(r));
    send_to(gather, r, mine);
    receive_from(gather, r, piece(r));
  }
  run(scatter, tag, 0);
  const auto own_elements = static_cast<std::int64_t>(mine.size()) / bytes_per_element(type);
  sum(received, mine.data(), mine.data(), own_elements, type, operation);
  run(gather, tag, 1);
}

void GroupCommunicator::reduce(const void* data, void* result, std::int64_t elements, DataType type,
                               ReduceOperation operation, int root, std::int64_t tag) {
  const std::size_t bytes = bytes_of(elements, type);
  Messages messages;
  if (rank_ != root) {
    send_to(messages, root, bytes_at(data, 0, bytes));
    return run(messages, tag);
  }
  Addends received(size(), bytes);
  for (int r = 0; r < size(); ++r) {
    if (r != rank_) receive_from(messages, r, received.of(r));
  }
  run(messages, tag);
  sum(received, data, result, elements, type, operation);
}

void GroupCommunicator::reduce_scatter(const void* data, void* result, std::int64_t elements, DataType type,
                                       ReduceOperation operation, std::int64_t tag) {
  const std::size_t bytes = bytes_of(elements, type);
  const auto block = [&](int r) { return bytes_at(data, bytes * static_cast<std::size_t>(r), bytes); };
  Addends received(size(), bytes);
  Messages messages;
  for (int step = 1; step < size(); ++step) {
    const int r = (rank_ + step) % size();
    send_to(messages, r, block(r));
    receive_from(messages, r, received.of(r));
  }
  run(messages, tag);
  sum(received, block(rank_).data(), result, elements, type, operation);
}

void GroupCommunicator::all_gather(const void* data, void* result, std::int64_t elements, DataType type,
                                   std::int64_t tag) {
  const std::size_t bytes = bytes_of(elements, type);
  Messages messages;
  for (int step = 1; step < size(); ++step) {
    const int r = (rank_ + step) % size();
    send_to(messages, r, bytes_at(data, 0, bytes));
    receive_from(messages, r, bytes_at(result, bytes * static_cast<std::size_t>(r), bytes));
  }
  run(messages, tag);
  copy_own(bytes_at(result, bytes * static_cast<std::size_t>(rank_), bytes).data(), data, bytes);
}

void GroupCommunicator::all_to_all(const void* data, void* result, std::int64_t elements, DataType type,
                                   std::int64_t tag) {
  const std::size_t bytes = bytes_of(elements, type);
  Messages messages;
  for (int step = 1; step < size(); ++step) {
    const int r = (rank_ + step) % size();
    const std::size_t offset = bytes * static_cast<std::size_t>(r);
    send_to(messages, r, bytes_at(data, offset, bytes));
    receive_from(messages, r, bytes_at(result, offset, bytes));
  }
  run(messages, tag);
  const std::size_t own = bytes * static_cast<std::size_t>(rank_);
  copy_own(bytes_at(result, own, bytes).data(), bytes_at(data, own, bytes).data(), bytes);
}

void GroupCommunicator::broadcast(void* data, std::int64_t elements, DataType type, int root,
                                  std::int64_t tag) {
  const std::size_t bytes = bytes_of(elements, type);
  Messages messages;
  if (rank_ != root) {
    receive_from(messages, root, bytes_at(data, 0, bytes));
  } else {
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) send_to(messages, r, bytes_at(data, 0, bytes));
    }
  }
  run(messages, tag);
}

void GroupCommunicator::send(const void* data, std::int64_t elements, DataType type, int to,
                             std::int64_t tag) {
  Messages messages;
  send_to(messages, to, bytes_at(data, 0, bytes_of(elements, type)));
  run(messages, tag);
}

void GroupCommunicator::receive(void* data, std::int64_t elements, DataType type, int from,
                                std::int64_t tag) {
  Messages messages;
  receive_from(messages, from, bytes_at(data, 0, bytes_of(elements, type)));
  run(messages, tag);
}

std::unique_ptr<Communicator> GroupCommunicator::group(std::span<const int> members) {
  std::vector<int> endpoints;
  for (const int rank : members) endpoints.push_back(endpoint(rank));
  return group_communicator(transport_, endpoints);
}

std::unique_ptr<Communicator> GroupCommunicator::split(int color, int key, std::int64_t tag) {
  struct Wish {
    std::int32_t color;
    std::int32_t key;
  };
  const Wish own{color, key};
  std::vector<Wish> wishes(members_.size());
  all_gather(&own, wishes.data(), 2, DataType::Int32, tag);
  if (color < 0) return nullptr;
  const auto wish = [&](int rank) { return wishes[static_cast<std::size_t>(rank)]; };
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) {
    if (wish(r).color == color) ranks.push_back(r);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return wish(a).key < wish(b).key; });
  return group(ranks);
}

}  // namespace

std::unique_ptr<Communicator> world_communicator(std::shared_ptr<Transport> transport) {
  std::vector<int> all(static_cast<std::size_t>(transport->endpoints()));
  std::iota(all.begin(), all.end(), 0);
  return group_communicator(std::move(transport), all);
}

std::unique_ptr<Communicator> group_communicator(std::shared_ptr<Transport> transport,
                                                 std::span<const int> members) {
  const auto own = std::find(members.begin(), members.end(), transport->endpoint());
  std::vector<int> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  const bool valid = own != members.end() && sorted.front() >= 0 && sorted.back() < transport->endpoints() &&
                     std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!valid) {
    throw InternalError(fmt::format("device {} of {} can't be in a group of the devices {}",
                                    transport->endpoint(), transport->endpoints(), fmt::join(members, ", ")));
  }
  const auto rank = static_cast<int>(own - members.begin());
  return std::make_unique<GroupCommunicator>(std::move(transport),
                                             std::vector<int>(members.begin(), members.end()), rank);
}

}  // namespace pipesim
