#include "executor/backend/cores.h"

#include <pthread.h>
#include <sched.h>

#include "sim/base/out_of_memory.h"

namespace pipesim {
namespace {

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(c, &set)) cores.push_back(c);
  }
  return cores;
}

void pin_to_core_of(std::size_t device) {
  static const std::vector<int> cores = allowed_cores();  // before any thread was pinned
  if (!cores.empty()) pin(cores[device % cores.size()]);
}

bool run_in_real_time() {
  sched_param parameters{};
  parameters.sched_priority = sched_get_priority_min(SCHED_FIFO);
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
}

std::optional<Bytes> available_memory() {
  const std::optional<MemoryLimit> limit = memory_limit();
  return limit ? std::optional(limit->left) : std::nullopt;
}

}  // namespace pipesim
