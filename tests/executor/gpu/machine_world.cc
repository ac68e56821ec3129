#include "tests/executor/gpu/machine_world.h"

#include <algorithm>
#include <numeric>

#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

class WorldMember : public Communicator {
 public:
  WorldMember(MachineWorld& world, std::vector<int> group, int rank)
      : world_(world), group_(std::move(group)), match_(group_), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(group_.size()); }

  void all_reduce(void* data, std::int64_t n, DataType type, ReduceOperation operation,
                  std::int64_t tag) override {
    call({Collective::AllReduce, operation, type, n}, data, n, data, n, tag);
  }
  void reduce(const void* data, void* result, std::int64_t n, DataType type, ReduceOperation operation,
              int root, std::int64_t tag) override {
    call({Collective::Reduce, operation, type, n, root}, data, n, rank_ == root ? result : nullptr, n, tag);
  }
  void reduce_scatter(const void* data, void* result, std::int64_t n, DataType type,
                      ReduceOperation operation, std::int64_t tag) override {
    call({Collective::ReduceScatter, operation, type, n}, data, n * size(), result, n, tag);
  }
  void all_gather(const void* data, void* result, std::int64_t n, DataType type, std::int64_t tag) override {
    call({Collective::AllGather, {}, type, n}, data, n, result, n * size(), tag);
  }
  void all_to_all(const void* data, void* result, std::int64_t n, DataType type, std::int64_t tag) override {
    call({Collective::AllToAll, {}, type, n}, data, n * size(), result, n * size(), tag);
  }
  void broadcast(void* data, std::int64_t n, DataType type, int root, std::int64_t tag) override {
    call({Collective::Broadcast, {}, type, n, root}, data, rank_ == root ? n : 0, data, n, tag);
  }
  void send(const void* data, std::int64_t n, DataType type, int to, std::int64_t tag) override {
    message(rank_, to).call({Collective::Send, {}, type, n}, data, n, nullptr, 0, tag);
  }
  void receive(void* data, std::int64_t n, DataType type, int from, std::int64_t tag) override {
    message(from, rank_).call({Collective::Send, {}, type, n}, nullptr, 0, data, n, tag);
  }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> members) override {
    std::vector<int> group;
    for (const int m : members) group.push_back(group_[static_cast<std::size_t>(m)]);
    const int self = group_[static_cast<std::size_t>(rank_)];
    const auto rank = std::ranges::find(group, self) - group.begin();
    return std::make_unique<WorldMember>(world_, std::move(group), static_cast<int>(rank));
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::int64_t tag) override {
    const std::array<std::int64_t, 2> mine{color, key};
    std::vector<std::int64_t> all(2 * group_.size());
    all_gather(mine.data(), all.data(), 2, DataType::Int64, tag);
    std::vector<int> members;
    for (int r = 0; r < size(); ++r) {
      if (color >= 0 && all[2 * static_cast<std::size_t>(r)] == color) members.push_back(r);
    }
    std::ranges::stable_sort(members, {}, [&](int r) { return all[2 * static_cast<std::size_t>(r) + 1]; });
    return members.empty() ? nullptr : group(members);
  }
  void abort(const std::string& reason) override { world_.abort(reason); }

 private:
  // The group of the two, whose messages are matched apart from those of other groups.
  [[nodiscard]] WorldMember message(int from, int to) const {
    WorldMember both(world_, {group_[static_cast<std::size_t>(from)], group_[static_cast<std::size_t>(to)]},
                     rank_ == from ? 0 : 1);
    both.match_ = group_;
    both.match_.insert(both.match_.end(), {-1, from, to});
    return both;
  }
  void call(const MachineWorld::Shape& shape, const void* give, std::int64_t given, void* get,
            std::int64_t got, std::int64_t tag) {
    if (shape.elements == 0) return;
    const auto width = static_cast<std::size_t>(bytes_per_element(shape.type));
    MachineWorld::Part part{rank_,
                            {},
                            static_cast<std::byte*>(get),
                            static_cast<std::size_t>(got) * width,
                            give != nullptr && give == get && given == got};
    const auto* first = static_cast<const std::byte*>(give);
    if (give != nullptr) part.give.assign(first, first + static_cast<std::size_t>(given) * width);
    world_.meet(match_, group_, tag, shape, std::move(part));
  }

  MachineWorld& world_;
  std::vector<int> group_;
  std::vector<int> match_;
  int rank_;
};

}  // namespace

MachineWorld::MachineWorld(Machine& machine, Collectives& collectives, int devices)
    : machine_(machine), collectives_(collectives), devices_(devices) {
  for (int d = 0; d < devices; ++d)
    streams_.push_back(machine.make_stream(DeviceId(d), StreamUse::Communication));
}

std::unique_ptr<Communicator> MachineWorld::member(int device) {
  std::vector<int> all(static_cast<std::size_t>(devices_));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<WorldMember>(*this, std::move(all), device);
}

void MachineWorld::meet(const std::vector<int>& match, const std::vector<int>& group, std::int64_t tag,
                        const Shape& shape, Part part) {
  std::unique_lock lock(mutex_);
  const auto require_no_abort = [&] {
    if (!aborted_.empty()) throw DeviceError(aborted_);
  };
  const std::pair key(match, tag);
  // Members of the last call with this tag may still be leaving.
  changed_.wait(lock, [&] { return !aborted_.empty() || !meetings_[key].done; });
  require_no_abort();
  Meeting& meeting = meetings_[key];
  if (meeting.parts.empty()) meeting.shape = shape;
  if (meeting.shape != shape) meeting.error = "members do not make the same call";
  meeting.parts.push_back(std::move(part));
  if (meeting.parts.size() == group.size()) {
    if (meeting.error.empty()) make(group, meeting);
    meeting.done = true;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return !aborted_.empty() || meeting.done; });
  require_no_abort();
  const std::string error = meeting.error;
  if (++meeting.left == group.size()) {
    meetings_.erase(key);
    changed_.notify_all();
  }
  if (!error.empty()) throw InternalError(error);
}

void MachineWorld::make(const std::vector<int>& group, Meeting& meeting) {
  std::vector<DeviceId> devices;
  for (const int d : group) devices.emplace_back(d);
  std::vector<CollectiveMember> members;
  std::vector<std::pair<std::byte*, Bytes>> blocks;
  const auto block = [&](int rank, std::size_t size) {
    const Bytes bytes(static_cast<std::int64_t>(size));
    std::byte* memory = machine_.allocate(devices[static_cast<std::size_t>(rank)], bytes);
    blocks.emplace_back(memory, bytes);
    return memory;
  };
  for (const Part& part : meeting.parts) {
    const int device = group[static_cast<std::size_t>(part.rank)];
    CollectiveMember member{part.rank, streams_[static_cast<std::size_t>(device)].get(), nullptr, nullptr};
    const bool root = part.rank == meeting.shape.root && (meeting.shape.kind == Collective::Broadcast ||
                                                          meeting.shape.kind == Collective::Reduce);
    if (!part.give.empty()) {
      member.give = block(part.rank, part.give.size());
      member.stream->upload(member.give, part.give.data(), part.give.size());
    }
    if (part.result != nullptr)
      member.get = part.in_place || root ? member.give : block(part.rank, part.result_size);
    members.push_back(member);
  }
  collectives_.run({meeting.shape.kind, meeting.shape.reduce, meeting.shape.type, devices,
                    meeting.shape.elements, meeting.shape.root},
                   members);
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Part& part = meeting.parts[m];
    if (part.result != nullptr) members[m].stream->download(part.result, members[m].get, part.result_size);
  }
  for (const CollectiveMember& m : members) m.stream->finish();
  for (std::size_t b = 0; b < blocks.size(); ++b)
    machine_.release(devices[0], blocks[b].first, blocks[b].second);
}

void MachineWorld::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted_.empty()) aborted_ = reason;
  changed_.notify_all();
}

}  // namespace pipesim::gpu
