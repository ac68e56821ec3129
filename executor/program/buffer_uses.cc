#include "executor/program/buffer_uses.h"

#include <algorithm>

namespace pipesim {
namespace {

void collect(const View& view, std::vector<BufferId>& out) {
  if (view.present()) out.push_back(view.buffer);
}

void collect(const MoveList& moves, std::vector<BufferId>& out) {
  for (const View& v : moves.zeroed) collect(v, out);
  for (const Move& m : moves.moves) collect(m.from, out), collect(m.to, out);
}

void collect(const Work& work, std::vector<BufferId>& out) {
  if (const auto* compute = std::get_if<ComputeWork>(&work)) {
    for (const auto* list : {&compute->values, &compute->gradients, &compute->statistics}) {
      for (const View& v : *list) collect(v, out);
    }
    collect(compute->saved, out);
  } else if (const auto* update = std::get_if<UpdateWork>(&work)) {
    for (const WeightUpdate& w : update->weights) {
      for (const View& v : {w.value, w.gradient, w.master, w.first, w.second}) collect(v, out);
    }
  } else if (const auto* communication = std::get_if<CommunicationWork>(&work)) {
    collect(communication->give, out);
    collect(communication->get, out);
  }
}

}  // namespace

void count_uses(Instruction& instruction, Program& program) {
  std::vector<BufferId>& used = instruction.buffers;
  collect(instruction.before, used);
  collect(instruction.work, used);
  collect(instruction.after, used);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const BufferId b : used) ++program.buffers[b.index()].num_uses;
}

}  // namespace pipesim
