#include "tools/running/execution_trace.h"

#include <map>
#include <sstream>
#include <tuple>

#include "sim/trace.h"

namespace pipesim {
namespace {

// Tracks by device: predicted compute and links, then the measured lists.
class TrackTable {
 public:
  void add(std::size_t device, bool measured, std::int32_t number, const TraceTrack& track) {
    rows_.try_emplace({device, measured, number}, track);
  }
  void number() {
    for (auto& [key, row] : rows_) {
      index_[key] = tracks_.size();
      tracks_.push_back(row);
    }
  }
  [[nodiscard]] std::size_t index(std::size_t device, bool measured, std::int32_t number) const {
    return index_.at({device, measured, number});
  }
  [[nodiscard]] const std::vector<TraceTrack>& tracks() const { return tracks_; }

 private:
  using Key = std::tuple<std::size_t, bool, std::int32_t>;
  std::map<Key, TraceTrack> rows_;
  std::map<Key, std::size_t> index_;
  std::vector<TraceTrack> tracks_;
};

}  // namespace

std::string execution_trace(const TaskGraph& tasks, const Timeline& predicted, const StepRecord& measured,
                            const OperatorGraph& graph, const Topology& topology) {
  struct Entry {
    std::size_t device;
    bool measured;
    std::int32_t number;
    TaskId task;
    Nanoseconds start, end;
  };
  std::vector<Entry> entries;
  TrackTable table;
  // A device's part in a task; predicted transfers are shown on every device that takes part in them.
  for (const InstructionTime& t : measured.times) {
    const bool moves = is_communication(tasks.labels[t.task.index()].kind);
    const std::string& name = topology.device(t.device).name;
    entries.push_back({t.device.index(), true, t.list, t.task, t.start, t.end});
    table.add(t.device.index(), true, t.list, {name + " measured", moves ? "transfers" : "compute"});
    entries.push_back({t.device.index(), false, moves ? 1 : 0, t.task, predicted.start[t.task.index()],
                       predicted.end[t.task.index()]});
    table.add(t.device.index(), false, moves ? 1 : 0, {name + " predicted", moves ? "transfers" : "compute"});
  }
  table.number();
  std::vector<TraceSlice> slices;
  for (const Entry& e : entries) {
    const TaskLabel& label = tasks.labels[e.task.index()];
    slices.push_back({table.index(e.device, e.measured, e.number), describe(label, graph, topology),
                      std::string(name_of(label.kind)), e.start, e.end - e.start});
  }
  std::ostringstream out;
  out.exceptions(std::ios::badbit);  // where memory runs out, say so
  write_trace(out, table.tracks(), slices);
  return std::move(out).str();
}

}  // namespace pipesim
