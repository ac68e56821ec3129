#include "tools/analysis/plans/breakdown/memory_by_stage.h"

#include <algorithm>

namespace pipesim {
std::vector<StageMemory> memory_by_stage(const BoundStrategy& strategy,
                                         const std::optional<Pipeline>& pipeline,
                                         const std::vector<DeviceMemory>& peaks) {
  std::vector<DeviceId> fullest(pipeline ? static_cast<std::size_t>(pipeline->num_stages()) : 1);
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    DeviceId& of_stage = fullest[pipeline ? static_cast<std::size_t>(pipeline->stage_of[i]) : 0];
    for (const DeviceId d : strategy[i]->config.devices) {
      const Bytes peak = peaks[d.index()].peak;
      const Bytes most = of_stage.valid() ? peaks[of_stage.index()].peak : Bytes(-1);
      if (peak > most || (peak == most && d < of_stage)) of_stage = d;
    }
  }
  std::vector<StageMemory> stages;
  for (std::size_t s = 0; s < fullest.size(); ++s) {
    if (!fullest[s].valid()) continue;
    const auto same = std::ranges::find(stages, fullest[s], &StageMemory::device);
    StageMemory& of = same != stages.end()
                          ? *same
                          : stages.emplace_back(StageMemory{
                                {}, fullest[s], peaks[fullest[s].index()], peaks[fullest[s].index()].peak});
    of.stages.push_back(static_cast<std::int32_t>(s));
  }
  return stages;
}

}  // namespace pipesim
