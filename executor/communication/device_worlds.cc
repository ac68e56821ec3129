#include "executor/communication/device_worlds.h"

#include "executor/communication/group_communicator.h"

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

int DeviceWorlds::local_rank() const {
  int before = 0;
  for (int r = 0; r < rank(); ++r) before += mpi_->host_of(r) == mpi_->host_of(rank()) ? 1 : 0;
  return before;
}

void DeviceWorlds::barrier() {
  if (mpi_) mpi_->barrier();
}

std::vector<std::string> DeviceWorlds::gather_text(const std::string& text) {
  return mpi_ ? mpi_->gather_text(text) : std::vector<std::string>{text};
}

void DeviceWorlds::add_over_ranks(std::span<float> values) {
  if (!mpi_ || mpi_->ranks() == 1) return;
  std::vector<int> firsts;
  for (int r = 0; r < mpi_->ranks(); ++r)
    firsts.push_back(static_cast<int>(static_cast<std::int64_t>(r) * mpi_->endpoints() / mpi_->ranks()));
  worlds_[local_.front().index()]->group(firsts)->all_reduce(
      values.data(), static_cast<std::int64_t>(values.size()), DataType::Float32, ReduceOperation::Sum,
      first_sum_tag + sums_++);
}

void DeviceWorlds::set_last_task(const std::string& text) {
  if (mpi_) mpi_->set_last_task(text);
}

}  // namespace pipesim
