#include "executor/measuring/step_gathering.h"

#include <algorithm>
#include <sstream>

namespace pipesim {
namespace {

std::string text_of(const std::vector<StepRecord>& steps) {
  std::ostringstream out;
  out << steps.size();
  for (const StepRecord& s : steps) {
    out << ' ' << s.makespan << ' ' << s.involuntary_switches << ' ' << s.times.size();
    for (const InstructionTime& t : s.times)
      out << ' ' << t.task.value << ' ' << t.device.value << ' ' << t.start << ' ' << t.end << ' ' << t.ready
          << ' ' << t.list << ' ' << t.interrupted;
  }
  return std::move(out).str();
}

// Adds the records of one rank. Lists of different ranks get different numbers.
void merge(const std::string& text, std::int32_t rank, std::vector<StepRecord>& steps) {
  constexpr std::int32_t lists_of_a_rank = 1'000'000;
  std::istringstream in(text);
  std::size_t count = 0;
  in >> count;
  steps.resize(std::max(steps.size(), count));
  for (std::size_t i = 0; i < count; ++i) {
    StepRecord& step = steps[i];
    Nanoseconds makespan = 0;
    std::int64_t switches = 0;
    std::size_t times = 0;
    in >> makespan >> switches >> times;
    step.makespan = std::max(step.makespan, makespan);
    step.involuntary_switches += switches;
    for (std::size_t n = 0; n < times; ++n) {
      InstructionTime t;
      in >> t.task.value >> t.device.value >> t.start >> t.end >> t.ready >> t.list >> t.interrupted;
      t.list += rank * lists_of_a_rank;
      step.times.push_back(t);
    }
  }
}

}  // namespace

std::vector<StepRecord> gather_steps(DeviceWorlds& worlds, const std::vector<StepRecord>& mine) {
  if (worlds.ranks() == 1) return mine;
  std::vector<StepRecord> all;
  const std::vector<std::string> texts = worlds.gather_text(text_of(mine));
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    merge(texts[rank], static_cast<std::int32_t>(rank), all);
  return all;
}

std::vector<MeasuredMemory> gather_memory(DeviceWorlds& worlds, const std::vector<MeasuredMemory>& mine) {
  if (worlds.ranks() == 1) return mine;
  std::ostringstream out;
  for (const MeasuredMemory& m : mine) {
    out << m.peak.value << ' ' << m.workspace_peak.value << ' ' << m.arena.value << ' ';
    for (const Bytes b : m.at_peak) out << b.value << ' ';
  }
  std::vector<MeasuredMemory> all(mine.size());
  for (const std::string& text : worlds.gather_text(std::move(out).str())) {
    std::istringstream in(text);
    for (MeasuredMemory& m : all) {
      MeasuredMemory theirs;
      in >> theirs.peak.value >> theirs.workspace_peak.value >> theirs.arena.value;
      for (Bytes& b : theirs.at_peak) in >> b.value;
      if (theirs.peak > m.peak || theirs.workspace_peak > m.workspace_peak) m = theirs;
    }
  }
  return all;
}

}  // namespace pipesim
