#include "executor/measuring/sample_set.h"

namespace pipesim {

void SampleSet::add(std::span<const Measurement> measurements) {
  for (const Measurement& m : measurements) {
    Measurement& all = by_key_.try_emplace(m.key, Measurement{m.key, m.work, {}, 0}).first->second;
    all.seconds.insert(all.seconds.end(), m.seconds.begin(), m.seconds.end());
    all.dropped += m.dropped;
  }
}

std::vector<Measurement> SampleSet::all() const {
  std::vector<Measurement> list;
  for (const auto& [key, measurement] : by_key_) list.push_back(measurement);
  return list;
}

}  // namespace pipesim
