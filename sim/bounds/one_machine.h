#pragma once

#include <span>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// Work of one lane. It can't start before `release`, and the iteration goes on for `rest` after it.
struct LaneJob {
  Nanoseconds release = 0, work = 0, rest = 0;
  bool operator==(const LaneJob&) const = default;
};

/// A lower bound of the end of any schedule of a lane that does one thing at a time: the makespan of
/// Jackson's preemptive schedule (Carlier, "The one-machine sequencing problem", European Journal of
/// Operational Research 11, 1982), which always works on the released job with the longest rest. Equals the
/// maximum over all sets of jobs of least release + Σ work + least rest; 0 without jobs. Sorts the jobs;
/// `scratch` is memory to work in. Effort: n log n.
Nanoseconds one_machine_bound(std::span<LaneJob> jobs, std::vector<LaneJob>& scratch);

/// The same without rests: when the lane is done with all jobs, or `at_least` if that is later. The maximum
/// over r of r + Σ work of jobs released at r or later. Sorts the jobs.
Nanoseconds end_of_work(std::span<LaneJob> jobs, Nanoseconds at_least);

/// A lower bound of when the lane is done with all jobs, if it has further work from `until` on; the further
/// work comes on top of the result: max over r ≤ until of r + Σ work of jobs released at r or later. At least
/// `until`. Sorts the jobs.
Nanoseconds busy_until(std::span<LaneJob> jobs, Nanoseconds until);

}  // namespace pipesim
