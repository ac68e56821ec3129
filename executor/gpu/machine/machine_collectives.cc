#include "executor/gpu/machine/machine_collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/gpu/bodies/addends.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

template <class Format>
void combine(Stream& stream, std::span<const std::byte* const> addends, std::byte* result,
             std::int64_t elements, bool maximum) {
  using Element = typename Format::Stored;
  Combine<Format> body{};
  for (std::size_t m = 0; m < addends.size(); ++m)
    body.addends[m] = reinterpret_cast<const Element*>(addends[m]);
  body.result = reinterpret_cast<Element*>(result);
  body.members = static_cast<int>(addends.size());
  body.maximum = maximum;
  run(stream, elements, body);
}

void combine(Stream& stream, std::span<const std::byte* const> addends, std::byte* result,
             std::int64_t elements, DataType type, bool maximum) {
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return combine<PlainElement<float>>(stream, addends, result, elements, maximum);
    case DataType::Float16:
      return combine<Float16Element>(stream, addends, result, elements, maximum);
    case DataType::BFloat16:
      return combine<BFloat16Element>(stream, addends, result, elements, maximum);
    case DataType::Float64:
      return combine<PlainElement<double>>(stream, addends, result, elements, maximum);
    case DataType::Int64:
      return combine<PlainElement<std::int64_t>>(stream, addends, result, elements, maximum);
    case DataType::Int32:
      return combine<PlainElement<std::int32_t>>(stream, addends, result, elements, maximum);
    case DataType::UInt8:
      return combine<PlainElement<std::uint8_t>>(stream, addends, result, elements, maximum);
    case DataType::Float8:
    case DataType::Float8Block:
    case DataType::MxFloat8:
    case DataType::NvFloat4:
      throw InternalError("no tensor is of a type of products alone");
  }
}

// One call: members by rank, and what each of them does.
class MachineCall {
 public:
  MachineCall(const CollectiveCall& call, std::span<const CollectiveMember> members)
      : call_(call), members_(members.begin(), members.end()), width_(bytes_per_element(call.type)) {
    std::ranges::sort(members_, {}, &CollectiveMember::rank);
  }
  [[nodiscard]] const std::vector<CollectiveMember>& members() const { return members_; }

  // What a member does when all have come, and when all have done that.
  void first(const CollectiveMember& member) const {
    switch (call_.kind) {
      case Collective::AllReduce:
      case Collective::Reduce:
        return add_up_own_cut(member);
      case Collective::ReduceScatter:
        return add_up(member, member.get, bytes(member.rank * call_.elements), call_.elements);
      case Collective::AllGather:
        for (const CollectiveMember& from : members_)
          copy(member, member.get + bytes(from.rank * call_.elements), from.give, call_.elements);
        return;
      case Collective::AllToAll:
        for (const CollectiveMember& from : members_)
          copy(member, member.get + bytes(from.rank * call_.elements),
               from.give + bytes(member.rank * call_.elements), call_.elements);
        return;
      case Collective::Broadcast:
        return copy(member, member.get, root().give, call_.elements);
      case Collective::Send:
        if (member.rank != 0) copy(member, member.get, members_[0].give, call_.elements);
    }
  }
  [[nodiscard]] bool has_second() const { return call_.kind == Collective::AllReduce; }
  void second(const CollectiveMember& member) const {
    for (const CollectiveMember& from : members_) {
      const std::int64_t begin = cut(from.rank), end = cut(from.rank + 1);
      copy(member, member.get + bytes(begin), from.get + bytes(begin), end - begin);
    }
  }

 private:
  [[nodiscard]] std::int64_t bytes(std::int64_t elements) const { return elements * width_; }
  [[nodiscard]] std::int64_t cut(int rank) const {
    return call_.elements * rank / static_cast<std::int64_t>(members_.size());
  }
  [[nodiscard]] const CollectiveMember& root() const {
    return members_[static_cast<std::size_t>(call_.root)];
  }

  void copy(const CollectiveMember& member, std::byte* to, const std::byte* from, std::int64_t n) const {
    if (n > 0 && to != from) member.stream->copy(to, from, static_cast<std::size_t>(bytes(n)));
  }
  void add_up(const CollectiveMember& member, std::byte* result, std::int64_t offset, std::int64_t n) const {
    std::vector<const std::byte*> addends;
    for (const CollectiveMember& from : members_) addends.push_back(from.give + offset);
    combine(*member.stream, addends, result, n, call_.type, call_.reduce == ReduceOperation::Max);
  }
  // Each adds up a part of its own, into its own sum or into the root's: nobody else touches that part.
  void add_up_own_cut(const CollectiveMember& member) const {
    const std::int64_t begin = cut(member.rank), end = cut(member.rank + 1);
    std::byte* result = call_.kind == Collective::AllReduce ? member.get : root().get;
    add_up(member, result + bytes(begin), bytes(begin), end - begin);
  }

  const CollectiveCall& call_;
  std::vector<CollectiveMember> members_;
  std::int64_t width_;
};

class MachineCollectives : public Collectives {
 public:
  explicit MachineCollectives(Machine& machine) : machine_(machine) {}

  void prepare(std::span<const std::vector<DeviceId>> /*groups*/) override {}
  void run(const CollectiveCall& call, std::span<const CollectiveMember> members) override {
    if (members.size() != call.group.size())
      throw InternalError("members of a collective on one machine are elsewhere");
    constexpr auto most = static_cast<std::size_t>(gpu::Combine<PlainElement<float>>::kMostMembers);
    if (members.size() > most)
      throw DeviceError(
          fmt::format("a collective has {} members; the devices of one GPU can do {}", members.size(), most));
    if (call.elements == 0) return;
    const MachineCall work(call, members);
    meet(call, work.members());
    for (const CollectiveMember& m : work.members()) work.first(m);
    meet(call, work.members());
    if (!work.has_second()) return;
    for (const CollectiveMember& m : work.members()) work.second(m);
    meet(call, work.members());
  }
  void abort(const std::string& /*reason*/) noexcept override {}  // nothing waits outside of its streams
  void require_peers() const override {}

 private:
  // Every stream waits for all others to have come so far.
  void meet(const CollectiveCall& call, const std::vector<CollectiveMember>& members) {
    while (events_.size() < members.size())
      events_.push_back(machine_.make_event(call.group[events_.size()]));
    for (std::size_t m = 0; m < members.size(); ++m) members[m].stream->record(*events_[m]);
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::size_t other = 0; other < members.size(); ++other) {
        if (other != m) members[m].stream->wait(*events_[other]);
      }
    }
  }

  Machine& machine_;
  std::vector<std::unique_ptr<Event>> events_;  // by rank, used again and again
};

}  // namespace

std::unique_ptr<Collectives> make_machine_collectives(Machine& machine) {
  return std::make_unique<MachineCollectives>(machine);
}

}  // namespace pipesim::gpu
