#pragma once

#include <iosfwd>
#include <string>

#include "search/intra/instance.h"

namespace pipesim {

/// Reads an instance in the format of the ASPLOS 2025 contest (`problem.nodes.{intervals,costs,usages}`,
/// `problem.edges.{nodes,costs}`, `problem.usage_limit`) or one that Alpa has merged (`node_cost`, `edges`
/// and `forbid` of `[a, b, [row-major]]`). Other members are skipped. The text is never in memory as a whole.
/// Throws InputError `FILE: /json/pointer: found …, allowed: …`.
IntraInstance read_instance(std::istream& text, const std::string& file);

/// Reads what `pipesim solve -o` writes (`{"strategies": […]}`) or a list of strategies alone, and checks it
/// against the instance. Throws InputError.
IntraAnswer read_answer(std::istream& text, const std::string& file, const IntraInstance& instance);

/// What `pipesim solve -o` writes.
std::string answer_text(const IntraAnswer& answer, WideCost cost);

}  // namespace pipesim
