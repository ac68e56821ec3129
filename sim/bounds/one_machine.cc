#include "sim/bounds/one_machine.h"

#include <algorithm>
#include <limits>

namespace pipesim {
namespace {

bool by_release(const LaneJob& a, const LaneJob& b) { return a.release < b.release; }
bool shorter_rest(const LaneJob& a, const LaneJob& b) { return a.rest < b.rest; }

// Releases after `until` count as `until`.
Nanoseconds end_from(std::span<LaneJob> jobs, Nanoseconds at_least, Nanoseconds until) {
  std::sort(jobs.begin(), jobs.end(), by_release);
  Nanoseconds later = 0, end = at_least;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    later += job->work;
    end = std::max(end, std::min(job->release, until) + later);
  }
  return end;
}

}  // namespace

Nanoseconds one_machine_bound(std::span<LaneJob> jobs, std::vector<LaneJob>& scratch) {
  std::sort(jobs.begin(), jobs.end(), by_release);
  std::vector<LaneJob>& released = scratch;  // a heap, longest rest first
  released.clear();
  Nanoseconds now = 0, bound = 0;
  for (std::size_t next = 0; next < jobs.size() || !released.empty();) {
    if (released.empty()) now = std::max(now, jobs[next].release);
    for (; next < jobs.size() && jobs[next].release <= now; ++next) {
      released.push_back(jobs[next]);
      std::push_heap(released.begin(), released.end(), shorter_rest);
    }
    LaneJob& job = released.front();
    const Nanoseconds until = next < jobs.size() ? jobs[next].release : now + job.work;
    const Nanoseconds worked = std::min(job.work, until - now);
    now += worked;
    job.work -= worked;
    if (job.work > 0) continue;
    bound = std::max(bound, now + job.rest);
    std::pop_heap(released.begin(), released.end(), shorter_rest);
    released.pop_back();
  }
  return bound;
}

Nanoseconds end_of_work(std::span<LaneJob> jobs, Nanoseconds at_least) {
  return end_from(jobs, at_least, std::numeric_limits<Nanoseconds>::max());
}

Nanoseconds busy_until(std::span<LaneJob> jobs, Nanoseconds until) { return end_from(jobs, until, until); }

}  // namespace pipesim
