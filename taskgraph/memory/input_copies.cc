#include <map>

#include "taskgraph/memory/life_tasks.h"

namespace pipesim {
namespace {

struct CopyOfDevice {
  Bytes bytes;
  LifeSpan life;
};

}  // namespace

std::vector<InputCopy> LifeTasks::input_copies(const Wiring& w) const {
  const UseRef source = w.sources.front();
  std::map<DeviceId, CopyOfDevice> wholes, pieces;
  for (const UseRef c : w.destinations) {
    const bool in_pieces = copied_in_pieces(c, w);
    if (!in_pieces && !copied_whole(c, w)) continue;
    const BoundOperator& reader = *(*strategy_)[c.op.index()];
    const OperatorTasks& tasks = tasks_of(c.op);
    const bool second = contents_.recomputation().again(c.op) && !runs_again_from_copy(c);
    const TaskId run = second ? tasks.recompute : tasks.forward;
    for (std::size_t k = 0; k < reader.memory.size(); ++k) {
      const auto shard = static_cast<std::int32_t>(k);
      const TaskList back = backward_end(c.op, shard);
      if (back.empty()) continue;
      const DeviceId d = reader.config.devices[k];
      CopyOfDevice& copy = (in_pieces ? pieces : wholes)[d];
      copy.bytes =
          in_pieces ? piece_of(source, c, d) : copy_of_input(reader, static_cast<std::size_t>(c.use), k);
      copy.life.cover({task_at(run, shard)}, back);
    }
  }
  for (std::size_t i = 0; i < w.plan->tasks.size() && !pieces.empty(); ++i) {
    for (const DeviceId d : contributors(w.plan->tasks[i].kind, w.plan->tasks[i].group)) {
      if (const auto copy = pieces.find(d); copy != pieces.end()) copy->second.life.ends.push_back(w.task(i));
    }
  }
  std::vector<InputCopy> copies;
  for (auto* of_devices : {&wholes, &pieces}) {
    for (auto& [device, copy] : *of_devices) copies.push_back({device, copy.bytes, std::move(copy.life)});
  }
  return copies;
}

Bytes LifeTasks::piece_of(UseRef source, UseRef reader, DeviceId d) const {
  const Layout& made = contents_.layouts()[data_layout(source, *strategy_)];
  const TensorUse& use = contents_.graph().op(reader.op).uses[static_cast<std::size_t>(reader.use)];
  const std::int32_t experts = contents_.loads().dimension(use.tensor);
  return Bytes(loaded(stored_bytes(*use.saved_as, made.elements_on(d)),
                      experts < 0 ? 1 : contents_.loads().of(experts, made)));
}

}  // namespace pipesim
