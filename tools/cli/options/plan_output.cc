#include "tools/cli/options/plan_output.h"

#include <utility>

#include "sim/base/files.h"

namespace pipesim {

void give_plan(const Streams& streams, const std::string& file, const Plan& plan, const OperatorGraph& graph,
               const Topology& topology) {
  if (file.empty() && streams.caller == nullptr) return;
  std::string text = to_json(plan, graph, topology);
  if (!file.empty()) write_file(file, text);
  if (streams.caller != nullptr) streams.caller->take_plan(std::move(text));
}

}  // namespace pipesim
