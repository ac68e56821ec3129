#include "executor/ranks/device_worlds.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "executor/communication/group_communicator.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::int64_t first_sum_tag = INT64_MIN / 2;  // far from the tags of tasks

}  // namespace

DeviceWorlds::DeviceWorlds(const Topology& topology, bool over_mpi)
    : worlds_(topology.num_devices(), nullptr) {
  const auto devices = static_cast<int>(topology.num_devices());
  if (over_mpi) {
    mpi_ = open_mpi_world(devices);
    std::vector<std::string> names;
    for (const Device& d : topology.parts().devices) names.push_back(d.name);
    mpi_->name_endpoints(names);
    for (const int e : mpi_->own_endpoints()) local_.emplace_back(e);
  } else {
    memory_ = std::make_unique<SharedMemory>(devices);
    for (int d = 0; d < devices; ++d) local_.emplace_back(d);
  }
  for (const DeviceId d : local_) {
    owned_.push_back(world_communicator(mpi_ ? mpi_->transport(d.value) : memory_->transport(d.value)));
    worlds_[d.index()] = owned_.back().get();
  }
}

DeviceWorlds::DeviceWorlds(const Topology& topology, const RendezvousPlace& place,
                           const LaunchedRank& launched)
    : launched_local_rank_(launched.local_rank), worlds_(topology.num_devices(), nullptr) {
  if (static_cast<std::size_t>(launched.ranks) > topology.num_devices())
    throw InputError(fmt::format("{} has started {} processes for {} devices; allowed: at most one for each",
                                 launched.launcher, launched.ranks, topology.num_devices()));
  RendezvousOptions options;
  options.rank = launched.rank;
  options.size = launched.ranks;
  // A step, or the unsplit model that it is compared with, may take long; who dies meanwhile is noticed.
  options.call_limit = std::chrono::minutes(10);
  options.on_death = [this](int rank, const std::string& host) {
    const std::lock_guard lock(mutex_);
    if (on_death_) on_death_(fmt::format("rank {} ({}) died", rank, host));
  };
  meeting_ = std::make_unique<Rendezvous>(place, options);
  for (std::size_t d = 0; d < topology.num_devices(); ++d) {
    if (rank_of(DeviceId(d)) == launched.rank) local_.emplace_back(d);
  }
}

int DeviceWorlds::rank() const { return mpi_ ? mpi_->rank() : meeting_ ? meeting_->rank() : 0; }

int DeviceWorlds::ranks() const { return mpi_ ? mpi_->ranks() : meeting_ ? meeting_->size() : 1; }

// Rank r of R has the devices from r·n/R up to (r + 1)·n/R.
int DeviceWorlds::rank_of(DeviceId device) const {
  const auto n = static_cast<std::int64_t>(worlds_.size());
  return static_cast<int>(((device.value + 1) * static_cast<std::int64_t>(ranks()) - 1) / n);
}

int DeviceWorlds::devices_before_on_host() const {
  int devices = 0;
  for (std::size_t d = 0; d < worlds_.size(); ++d) {
    const int owner = rank_of(DeviceId(d));
    if (owner >= rank()) break;
    // Ranks of a host follow one another.
    const bool here =
        mpi_ ? mpi_->host_of(owner) == mpi_->host_of(rank()) : rank() - owner <= launched_local_rank_;
    devices += here ? 1 : 0;
  }
  return devices;
}

void DeviceWorlds::barrier() {
  if (mpi_) mpi_->barrier();
  if (meeting_) meeting_->barrier("a step");
}

std::vector<std::string> DeviceWorlds::gather_text(const std::string& text) {
  if (meeting_) return meeting_->all_gather(text, "a report");
  return mpi_ ? mpi_->gather_text(text) : std::vector<std::string>{text};
}

void DeviceWorlds::add_over_ranks(std::span<float> values) {
  if (ranks() == 1) return;
  if (meeting_) {
    const std::string mine(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    std::ranges::fill(values, 0.0F);
    std::vector<float> addend(values.size());
    for (const std::string& theirs : gather_text(mine)) {
      std::memcpy(addend.data(), theirs.data(), std::min(theirs.size(), values.size_bytes()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += addend[i];
    }
    return;
  }
  std::vector<int> firsts;
  for (int r = 0; r < mpi_->ranks(); ++r)
    firsts.push_back(static_cast<int>(static_cast<std::int64_t>(r) * mpi_->endpoints() / mpi_->ranks()));
  worlds_[local_.front().index()]->group(firsts)->all_reduce(
      values.data(), static_cast<std::int64_t>(values.size()), DataType::Float32, ReduceOperation::Sum,
      first_sum_tag + sums_++);
}

void DeviceWorlds::on_death(std::function<void(const std::string&)> callback) {
  const std::lock_guard lock(mutex_);
  on_death_ = std::move(callback);
}

void DeviceWorlds::set_last_task(const std::string& text) {
  if (mpi_) mpi_->set_last_task(text);
}

}  // namespace pipesim
