#include "search/recipe_planner/measuring/part_busy.h"

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
    std::array<Moments, kNumRecomputes> once_more;
    once_more.fill(Moments(places, 0));
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
        for (std::size_t r = 0; r < kNumRecomputes; ++r) {
          if (parts_.recomputation[r] && again(r, op))
            once_more[r][d] += duration_of(bound.forward, k, shards);
        }
      }
    }
    costs.busy_forward = least(forward);
    costs.busy_input = least(input);
    costs.busy_weight = least(weight);
    for (std::size_t r = 0; r < kNumRecomputes; ++r) costs.busy_again[r] = least(once_more[r]);
  }
};

}  // namespace

void measure_busy(const PartOnMesh& part, PartCosts& costs) { BusyDevices(part).measure(costs); }

}  // namespace pipesim
