#include "executor/program/arena.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace pipesim {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + ArenaPlan::kAlignment - 1) / ArenaPlan::kAlignment * ArenaPlan::kAlignment;
}

// The instructions of one device, one after the other as they are dispatched, and its buffers' places.
class DeviceArena {
 public:
  DeviceArena(const Program& program, DeviceProgram& device, const std::vector<std::int64_t>& place_in_order,
              const Timeline& simulated)
      : program_(program) {
    add_list(device.compute);
    for (std::vector<Instruction>& stream : device.streams) add_list(stream);
    std::ranges::sort(steps_, {}, [&](const Step& s) { return place_in_order[s.instruction->task.index()]; });
    std::map<BufferId, std::size_t> number;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      step_of_task_[steps_[step].instruction->task] = step;
      const std::vector<BufferId>& buffers = steps_[step].instruction->buffers;
      for (const BufferId b : std::set<BufferId>(buffers.begin(), buffers.end())) {
        const auto [at, fresh] = number.try_emplace(b, lives_.size());
        if (fresh) lives_.emplace_back().buffer = b;
        Life& life = lives_[at->second];
        life.users.push_back(step);
        const std::size_t task = steps_[step].instruction->task.index();
        life.begin = std::min(life.begin, simulated.start[task]);
        life.end = std::max(life.end, simulated.end[task]);
      }
    }
    for (Life& life : lives_) {
      if (stays(life.buffer)) life.whole_run = true;
    }
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      if (program.buffers[b].device == device.device && stays(BufferId(b)) && !number.contains(BufferId(b))) {
        Life& life = lives_.emplace_back();
        life.buffer = BufferId(b);
        life.whole_run = true;
      }
    }
    for (const Program::Result& result : program.results) {
      const auto at = number.find(result.view.buffer);
      if (at != number.end()) lives_[at->second].until_end = true;
    }
  }

  Bytes place(std::vector<std::int64_t>& offset) {
    std::vector<std::size_t> by_size(lives_.size());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::ranges::stable_sort(by_size, std::ranges::greater(),
                             [&](std::size_t i) { return bytes(lives_[i]); });
    std::vector<const Life*> placed;  // by offset
    std::int64_t size = 0;
    for (const std::size_t i : by_size) {
      Life& life = lives_[i];
      std::int64_t at = 0;
      for (const Life* other : placed) {
        if (!together(life, *other)) continue;
        if (other->offset - at >= bytes(life)) break;
        at = std::max(at, other->offset + bytes(*other));
      }
      life.offset = at;
      size = std::max(size, at + bytes(life));
      placed.insert(std::ranges::upper_bound(placed, at, {}, [](const Life* l) { return l->offset; }), &life);
      offset[life.buffer.index()] = at;
    }
    return Bytes(size);
  }

  // In dispatch order, each instruction waits for the last users of the places that it takes over.
  void wait_for_places() {
    std::vector<std::vector<std::int64_t>> known(steps_.size());  // by step and list: steps that are over
    std::vector<std::int64_t> last_of_list(lists_, -1);
    const std::vector<std::vector<std::size_t>> before = users_before();
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      Instruction& instruction = *steps_[step].instruction;
      std::vector<std::int64_t>& seen = known[step];
      seen.assign(lists_, -1);
      const auto learn = [&](std::size_t earlier) {
        for (std::size_t list = 0; list < lists_; ++list)
          seen[list] = std::max(seen[list], known[earlier][list]);
        std::int64_t& own = seen[steps_[earlier].list];
        own = std::max(own, static_cast<std::int64_t>(earlier));
      };
      const std::int64_t previous =
          std::exchange(last_of_list[steps_[step].list], static_cast<std::int64_t>(step));
      if (previous >= 0) learn(static_cast<std::size_t>(previous));
      for (const TaskId task : instruction.waits) {
        if (const auto at = step_of_task_.find(task); at != step_of_task_.end()) learn(at->second);
      }
      // The latest first: what they wait for need not be waited for again.
      for (const std::size_t user : before[step]) {
        if (seen[steps_[user].list] >= static_cast<std::int64_t>(user)) continue;
        instruction.waits.push_back(steps_[user].instruction->task);
        learn(user);
      }
    }
  }

 private:
  struct Step {
    Instruction* instruction;
    std::size_t list;
  };
  struct Life {
    BufferId buffer;
    std::vector<std::size_t> users;  // steps, ascending
    std::int64_t offset = 0;
    Nanoseconds begin = std::numeric_limits<Nanoseconds>::max(), end = 0;  // simulated
    bool whole_run = false, until_end = false;
  };

  void add_list(std::vector<Instruction>& list) {
    for (Instruction& instruction : list) steps_.push_back({&instruction, lists_});
    ++lists_;
  }

  [[nodiscard]] bool stays(BufferId b) const {
    const Buffer::Life life = program_.buffers[b.index()].life;
    return life == Buffer::Life::Forever || life == Buffer::Life::Loaded;
  }
  [[nodiscard]] std::int64_t bytes(const Life& life) const {
    return std::max(aligned(program_.buffers[life.buffer.index()].bytes().value), ArenaPlan::kAlignment);
  }
  static std::size_t first(const Life& life) { return life.whole_run ? 0 : life.users.front(); }
  static std::size_t last(const Life& life) {
    return life.whole_run || life.until_end ? std::numeric_limits<std::size_t>::max() : life.users.back();
  }
  static bool together(const Life& a, const Life& b) {
    return (first(a) <= last(b) && first(b) <= last(a)) || (a.begin < b.end && b.begin < a.end);
  }

  // By step, descending: the last user in each list of every place that it takes over.
  [[nodiscard]] std::vector<std::vector<std::size_t>> users_before() const {
    std::vector<const Life*> by_offset;
    for (const Life& life : lives_) by_offset.push_back(&life);
    std::ranges::sort(by_offset, {}, [](const Life* l) { return l->offset; });
    std::vector<std::set<std::size_t>> before(steps_.size());
    for (std::size_t i = 0; i < by_offset.size(); ++i) {
      const std::int64_t end = by_offset[i]->offset + bytes(*by_offset[i]);
      for (std::size_t j = i + 1; j < by_offset.size() && by_offset[j]->offset < end; ++j) {
        const bool order = last(*by_offset[i]) < first(*by_offset[j]);
        const Life &earlier = order ? *by_offset[i] : *by_offset[j],
                   &later = order ? *by_offset[j] : *by_offset[i];
        for (const std::size_t step : first_in_lists(later.users, false))
          for (const std::size_t user : first_in_lists(earlier.users, true)) before[step].insert(user);
      }
    }
    std::vector<std::vector<std::size_t>> result;
    for (const std::set<std::size_t>& users : before) result.emplace_back(users.rbegin(), users.rend());
    return result;
  }

  // The first user in each list, or the last.
  [[nodiscard]] std::vector<std::size_t> first_in_lists(const std::vector<std::size_t>& users,
                                                        bool last) const {
    std::vector<std::size_t> found;
    std::vector<bool> had(lists_);
    const auto visit = [&](std::size_t user) {
      if (had[steps_[user].list]) return;
      had[steps_[user].list] = true;
      found.push_back(user);
    };
    if (last) {
      std::for_each(users.rbegin(), users.rend(), visit);
    } else {
      std::ranges::for_each(users, visit);
    }
    return found;
  }

  const Program& program_;
  std::size_t lists_ = 0;
  std::vector<Step> steps_;
  std::map<TaskId, std::size_t> step_of_task_;
  std::vector<Life> lives_;
};

}  // namespace

ArenaPlan plan_arenas(Program& program, std::size_t num_devices, const Timeline& simulated) {
  ArenaPlan plan{std::vector<std::int64_t>(program.buffers.size(), 0), std::vector<Bytes>(num_devices)};
  std::vector<std::int64_t> place(program.order.size());
  for (std::size_t i = 0; i < program.order.size(); ++i)
    place[program.order[i].index()] = static_cast<std::int64_t>(i);
  for (DeviceProgram& device : program.devices) {
    DeviceArena arena(program, device, place, simulated);
    plan.size[device.device.index()] = arena.place(plan.offset);
    arena.wait_for_places();
  }
  return plan;
}

}  // namespace pipesim
