#include "executor/cuda/nccl_collectives.h"

#include <nccl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "executor/cuda/machine.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

using Group = std::vector<DeviceId>;

// "0,1,4", and back.
std::string text_of(const Group& group) {
  std::string text;
  for (const DeviceId d : group) text += (text.empty() ? "" : ",") + std::to_string(d.value);
  return text;
}

Group group_of(const std::string& text) {
  Group group;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) group.emplace_back(std::stoi(word));
  return group;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string line; std::getline(words, line);) lines.push_back(line);
  return lines;
}

// Two letters a byte, so that an id can be a line of text.
std::string letters_of(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    const auto byte = static_cast<unsigned char>(c);
    text += static_cast<char>('a' + byte / 16);
    text += static_cast<char>('a' + byte % 16);
  }
  return text;
}

ncclUniqueId id_of(const std::string& letters) {
  ncclUniqueId id{};
  if (letters.size() != 2 * sizeof id.internal) throw DeviceError("NCCL's id of a group is cut off");
  for (std::size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>((letters[2 * i] - 'a') * 16 + (letters[2 * i + 1] - 'a'));
  return id;
}

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return ncclFloat32;
    case DataType::Float16:
      return ncclFloat16;
    case DataType::BFloat16:
      return ncclBfloat16;
    case DataType::Float64:
      return ncclFloat64;
    case DataType::Int64:
      return ncclInt64;
    case DataType::Int32:
      return ncclInt32;
    case DataType::UInt8:
      return ncclUint8;
    case DataType::Float8:
    case DataType::Float8Block:
    case DataType::MxFloat8:
    case DataType::NvFloat4:
      break;
  }
  throw InternalError("NCCL has no such type of elements");
}

// Calls of NCCL between its begin and its end are made together; what throws in between ends it, too.
class CallGroup {
 public:
  CallGroup() { ncclGroupStart(); }
  ~CallGroup() {
    if (open_) ncclGroupEnd();
  }
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  ncclResult_t end() {
    open_ = false;
    return ncclGroupEnd();
  }

 private:
  bool open_ = true;
};

// Communicators do not block the host, so that it sees when a peer disappears.
class NcclCollectives : public Collectives {
 public:
  NcclCollectives(const CudaMachine& machine, Processes processes)
      : machine_(machine), processes_(std::move(processes)), watcher_([this] { watch(); }) {
    // Streams of a device run several groups' collectives side by side: without an order of their launches
    // two devices could each wait for another one first (NCCL user guide, "Using multiple communicators").
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  }

  ~NcclCollectives() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    watcher_.join();
    // One that is not ready can't be destroyed: its thread goes on until it is aborted. Several ranks of one
    // process end together; none is left after an abort.
    const bool ready = std::ranges::all_of(comms_, [](const auto& entry) { return is_ready(entry.second); });
    CallGroup group;
    for (const auto& [member, comm] : comms_) ready ? ncclCommDestroy(comm) : ncclCommAbort(comm);
  }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  void prepare(std::span<const Group> groups) override {
    // Members of a group have joined it all, or none has.
    std::vector<Group> fresh(groups.begin(), groups.end());
    std::erase_if(fresh, [this](const Group& group) { return joined_.contains(group); });
    const std::vector<Group> all = groups_of_all(fresh);
    const std::map<Group, ncclUniqueId> ids = ids_of_all(all);
    // In one order everywhere, so that none waits for one that waits for it.
    for (const Group& group : all) {
      if (std::ranges::find(fresh, group) != fresh.end() && joined_.insert(group).second)
        join(group, ids.at(group));
    }
  }

  void run(const CollectiveCall& call, std::span<const CollectiveMember> members) override {
    require_peers();
    if (call.elements == 0) return;
    const Group group(call.group.begin(), call.group.end());
    {
      const std::lock_guard lock(mutex_);  // nobody aborts meanwhile
      if (!failure_.empty()) throw DeviceError(failure_);
      CallGroup together;
      for (const CollectiveMember& member : members)
        require(start(call, member, comms_.at({group, member.rank})), "a collective of NCCL");
      require(together.end(), "ncclGroupEnd");
    }
    for (const CollectiveMember& member : members) wait_for(group, member.rank);
  }

  // Kernels of NCCL that wait for a peer end when their communicator is aborted; all together, since one that
  // still waits would keep another's memory from being freed.
  void abort(const std::string& reason) noexcept override {
    std::map<std::pair<Group, int>, ncclComm_t> comms;
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) return;
      failure_ = reason.empty() ? "a peer has failed" : reason;
      failed_ = true;
      comms.swap(comms_);
    }
    CallGroup together;
    for (const auto& [member, comm] : comms) ncclCommAbort(comm);
  }

  void require_peers() const override {
    if (!failed_) return;
    const std::lock_guard lock(mutex_);
    throw DeviceError(failure_);
  }

 private:
  static ncclResult_t start(const CollectiveCall& call, const CollectiveMember& m, ncclComm_t comm) {
    const auto n = static_cast<std::size_t>(call.elements);
    const ncclDataType_t type = nccl_type(call.type);
    const ncclRedOp_t sum = call.reduce == ReduceOperation::Max ? ncclMax : ncclSum;
    cudaStream_t stream = dynamic_cast<CudaStream&>(*m.stream).stream();
    switch (call.kind) {
      case Collective::AllReduce:
        return ncclAllReduce(m.give, m.get, n, type, sum, comm, stream);
      case Collective::ReduceScatter:
        return ncclReduceScatter(m.give, m.get, n, type, sum, comm, stream);
      case Collective::AllGather:
        return ncclAllGather(m.give, m.get, n, type, comm, stream);
      case Collective::Broadcast:
        return ncclBroadcast(m.give, m.get, n, type, call.root, comm, stream);
      case Collective::Reduce:
        return ncclReduce(m.give, m.get, n, type, sum, call.root, comm, stream);
      case Collective::Send:
        return m.rank == 0 ? ncclSend(m.give, n, type, 1, comm, stream)
                           : ncclRecv(m.get, n, type, 0, comm, stream);
      case Collective::AllToAll:
        return exchange(call, m, comm, stream);
    }
    return ncclInvalidArgument;
  }

  static ncclResult_t exchange(const CollectiveCall& call, const CollectiveMember& m, ncclComm_t comm,
                               cudaStream_t stream) {
    const auto n = static_cast<std::size_t>(call.elements);
    const auto bytes = call.elements * bytes_per_element(call.type);
    const ncclDataType_t type = nccl_type(call.type);
    for (int peer = 0; peer < static_cast<int>(call.group.size()); ++peer) {
      if (const ncclResult_t r = ncclSend(m.give + peer * bytes, n, type, peer, comm, stream);
          r != ncclSuccess)
        return r;
      if (const ncclResult_t r = ncclRecv(m.get + peer * bytes, n, type, peer, comm, stream);
          r != ncclSuccess)
        return r;
    }
    return ncclSuccess;
  }

  // Every process knows only the groups of its own members.
  std::vector<Group> groups_of_all(std::span<const Group> mine) {
    std::string text;
    for (const Group& group : mine) text += text_of(group) + "\n";
    std::set<Group> all;
    for (const std::string& theirs : processes_.gather(text)) {
      for (const std::string& line : lines_of(theirs)) all.insert(group_of(line));
    }
    return {all.begin(), all.end()};
  }

  // The process of a group's first member makes its id.
  std::map<Group, ncclUniqueId> ids_of_all(const std::vector<Group>& groups) {
    std::string mine;
    for (const Group& group : groups) {
      if (processes_.rank_of(group.front()) != processes_.rank) continue;
      ncclUniqueId id;
      require(ncclGetUniqueId(&id), "ncclGetUniqueId");
      mine += text_of(group) + " " + letters_of(id) + "\n";
    }
    std::map<Group, ncclUniqueId> ids;
    for (const std::string& theirs : processes_.gather(mine)) {
      for (const std::string& line : lines_of(theirs)) {
        const std::size_t space = line.find(' ');
        ids[group_of(line.substr(0, space))] = id_of(line.substr(space + 1));
      }
    }
    return ids;
  }

  void join(const Group& group, const ncclUniqueId& id) {
    std::vector<int> ranks;
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) throw DeviceError(failure_);
      CallGroup together;
      for (std::size_t rank = 0; rank < group.size(); ++rank) {
        if (processes_.rank_of(group[rank]) != processes_.rank) continue;
        machine_.gpu_of(group[rank]).use();
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ranks.push_back(static_cast<int>(rank));
        const auto comm = comms_.try_emplace({group, ranks.back()}, nullptr).first;
        const ncclResult_t result =
            ncclCommInitRankConfig(&comm->second, static_cast<int>(group.size()), id, ranks.back(), &config);
        if (comm->second == nullptr) comms_.erase(comm);
        require(result, "ncclCommInitRankConfig");
      }
      require(together.end(), "ncclGroupEnd");
    }
    for (const int rank : ranks) wait_for(group, rank);
  }

  // Returns when the calls to a communicator are no longer in progress.
  void wait_for(const Group& group, int rank) {
    for (;;) {
      ncclResult_t state = ncclInProgress;
      {
        const std::lock_guard lock(mutex_);
        if (!failure_.empty()) throw DeviceError(failure_);
        require(ncclCommGetAsyncError(comms_.at({group, rank}), &state), "ncclCommGetAsyncError");
      }
      if (state != ncclInProgress) return require(state, "NCCL");
      std::this_thread::yield();
    }
  }

  static bool is_ready(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    return ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess;
  }

  static void require(ncclResult_t result, const char* what) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* more = ncclGetLastError(nullptr);
    std::string text = std::string(what) + ": " + ncclGetErrorString(result);
    if (more != nullptr && *more != '\0') text += std::string("; ") + more;
    throw DeviceError(text);
  }

  // NCCL tells of a peer that has gone only when it is asked.
  void watch() {
    constexpr std::chrono::milliseconds often(100);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, often, [this] { return stopping_; })) {
      std::string found;
      for (const auto& [member, comm] : comms_) {
        ncclResult_t state = ncclSuccess;
        if (ncclCommGetAsyncError(comm, &state) != ncclSuccess ||
            (state != ncclSuccess && state != ncclInProgress))
          found = std::string("NCCL: ") + ncclGetErrorString(state) + " in the group of devices " +
                  text_of(member.first);
      }
      if (found.empty()) continue;
      lock.unlock();
      abort(found);
      lock.lock();
    }
  }

  const CudaMachine& machine_;
  Processes processes_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::pair<Group, int>, ncclComm_t> comms_;  // by group and rank: those of this process
  std::set<Group> joined_;
  std::string failure_;
  std::atomic<bool> failed_ = false;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace

std::unique_ptr<Collectives> make_nccl_collectives(Machine& machine, const Processes& processes) {
  return std::make_unique<NcclCollectives>(dynamic_cast<const CudaMachine&>(machine), processes);
}

}  // namespace pipesim::gpu
