#include "taskgraph/drawing/task_graph_dot.h"

#include <fmt/format.h>

#include <map>
#include <ostream>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace

void write_dot(std::ostream& out, const TaskGraph& tasks, const Topology& topology,
               const std::function<std::string(TaskId)>& name) {
  out << "digraph tasks {\n  rankdir=LR;\n  node [shape=box, fontsize=10];\n";
  std::map<DeviceId, std::vector<std::size_t>> by_device;
  for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
    const TaskLabel& label = tasks.labels[t];
    if (!is_communication(label.kind)) by_device[label.device].push_back(t);
    const char* shape = is_communication(label.kind) ? ", shape=ellipse" : "";
    out << fmt::format("  t{} [label={}{}];\n", t, quoted(name(TaskId(t))), shape);
  }
  for (const auto& [device, members] : by_device) {
    out << fmt::format("  subgraph cluster_{} {{\n    label={};\n   ", device.value,
                       quoted(topology.device(device).name));
    for (const std::size_t t : members) out << " t" << t << ';';
    out << "\n  }\n";
  }
  for (std::size_t t = 0; t < tasks.dag.num_tasks(); ++t) {
    for (const TaskId next : tasks.dag.successors(TaskId(t)))
      out << fmt::format("  t{} -> t{};\n", t, next.value);
  }
  out << "}\n";
  if (!out) throw InputError("the DOT file can't be written");
}

}  // namespace pipesim
