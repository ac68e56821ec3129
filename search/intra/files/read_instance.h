#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "search/intra/instance.h"

namespace pipesim {

/// Reads an instance in the format of the ASPLOS 2025 contest (`problem.nodes.{intervals,costs,usages}`,
/// `problem.edges.{nodes,costs}`, `problem.usage_limit`) or one that Alpa has merged (`node_cost`, `edges`
/// and `forbid` of `[a, b, [row-major]]`). Other members are skipped. The text is never in memory as a whole.
/// Throws InputError `FILE: /json/pointer: found …, allowed: …`.
IntraInstance read_instance(std::istream& text, const std::string& file);

/// Names for people, which no solver reads: of each node, and of each of its strategies.
struct InstanceNames {
  std::vector<std::string> nodes;
  std::vector<std::vector<std::string>> strategies;
};
/// The instance in the format of the contest; with `names` beside the problem, unless null. Costs are in
/// `unit`, which stands there too.
std::string instance_text(const IntraInstance& instance, const std::string& name,
                          const InstanceNames* names = nullptr);

/// Reads what `pipesim solve -o` writes (`{"strategies": […]}`) or a list of strategies alone, and checks it
/// against the instance. Throws InputError.
IntraAnswer read_answer(std::istream& text, const std::string& file, const IntraInstance& instance);

/// What `pipesim solve -o` writes.
std::string answer_text(const IntraAnswer& answer, WideCost cost);

}  // namespace pipesim
