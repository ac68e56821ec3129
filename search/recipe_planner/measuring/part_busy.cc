#include "search/recipe_planner/measuring/part_busy.h"

#include <algorithm>
#include <array>

#include "search/recipe_planner/measuring/moments.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

class BusyDevices : private PartOnMesh {
 public:
  explicit BusyDevices(const PartOnMesh& part) : PartOnMesh(part) {}

  // How long each device is busy, by its place among the devices of the part's first operator.
  void measure(PartCosts& costs) const {
    const std::vector<DeviceId>& devices = tables_[part_.operators.front()].config.devices;
    const std::size_t places = devices.size();
    Moments forward(places, 0), input(places, 0), weight(places, 0);
    Moments host_forward(places, 0), host_input(places, 0), host_weight(places, 0);
    std::array<Moments, kMostRecomputes> once_more, launched_once_more;
    once_more.fill(Moments(places, 0));
    launched_once_more.fill(Moments(places, 0));
    for (const OperatorId op : part_.operators) {
      stop_if_late();
      const BoundOperator& bound = tables_[op];
      const std::size_t shards = bound.config.devices.size();
      for (std::size_t d = 0; d < places; ++d) {
        const std::int32_t shard = bound.shard_of_device[devices[d].index()];
        if (shard < 0) continue;
        const auto k = static_cast<std::size_t>(shard);
        forward[d] += duration_of(bound.forward, k, shards);
        input[d] += duration_of(bound.backward_input, k, shards);
        weight[d] += duration_of(bound.backward_weight, k, shards);
        const Nanoseconds launching = launch_time(op, Pass::Forward, bound.forward, shard);
        host_forward[d] += launching;
        host_input[d] += launch_time(op, Pass::BackwardInput, bound.backward_input, shard);
        host_weight[d] += launch_time(op, Pass::BackwardWeight, bound.backward_weight, shard);
        for (std::size_t r = 0; r < kMostRecomputes; ++r) {
          if (!parts_.recomputation[r] || !again(r, op)) continue;
          once_more[r][d] += duration_of(bound.forward, k, shards);
          launched_once_more[r][d] += launching;
        }
      }
    }
    costs.busy_forward = least(forward);
    costs.busy_input = least(input);
    costs.busy_weight = least(weight);
    costs.host_forward = least(host_forward);
    costs.host_input = least(host_input);
    costs.host_weight = least(host_weight);
    for (std::size_t r = 0; r < kMostRecomputes; ++r) {
      costs.busy_again[r] = least(once_more[r]);
      costs.host_again[r] = least(launched_once_more[r]);
    }
  }

 private:
  // Returns how long the host launches a pass on a device, with the collectives inside the pass.
  [[nodiscard]] Nanoseconds launch_time(OperatorId op, Pass pass, const PassWork& work,
                                        std::int32_t shard) const {
    const HostTimes& times = tables_.runtime().host;
    if (!work.present || !tables_.runtime().has_host() || graph_.op(op).moves_nothing) return 0;
    const auto takes_part = [&](const InnerExchange& e) {
      return std::ranges::find(e.shards, shard) != e.shards.end();
    };
    const auto exchanges = static_cast<double>(std::ranges::count_if(work.exchanges, takes_part));
    return least_host_time(host_time(graph_.op(op), pass, times, tables_[op].config.degrees) +
                           times.collective * exchanges);
  }
};

}  // namespace

void measure_busy(const PartOnMesh& part, PartCosts& costs) { BusyDevices(part).measure(costs); }

}  // namespace pipesim
