#include "search/worker_threads.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>

#include "sim/base/deadline.h"

namespace pipesim {

WorkerThreads::WorkerThreads(std::size_t threads)
    : count_(threads),
      // The least of all that exist counts: one with few threads must not hold up others around it.
      allowed_(tbb::global_control::max_allowed_parallelism,
               std::max(threads, static_cast<std::size_t>(tbb::info::default_concurrency()))),
      arena_(static_cast<int>(threads)) {}

void WorkerThreads::run(const std::vector<std::size_t>& numbers, const Run& run) {
  std::atomic<std::size_t> next = 0;
  const Deadline* deadline = deadline_kept();
  const auto run_next = [&](std::size_t worker) {
    const KeepTo keep(deadline);
    for (std::size_t k = next++; k < numbers.size(); k = next++) run(numbers[k], worker);
    const std::scoped_lock lock(mutex_);  // ThreadSanitizer does not see oneTBB wait for its tasks
  };
  arena_.execute([&] { tbb::parallel_for(std::size_t{0}, count_, run_next, tbb::simple_partitioner()); });
  const std::scoped_lock lock(mutex_);
}

void WorkerThreads::execute(const std::function<void()>& work) {
  const Deadline* deadline = deadline_kept();
  arena_.execute([&] {
    const KeepTo keep(deadline);
    work();
  });
}

}  // namespace pipesim
