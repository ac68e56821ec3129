#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/operator_kind.h"

namespace pipesim {

/// The zoo as a table, with the sizes that each model has by default.
std::string zoo_table();

/// All kinds of operators as a table.
std::string kinds_table();
/// One kind: its attributes, and an example with its tensors, factors and lines of a model file.
std::string kind_text(const OperatorKind& kind);
/// A JSON object of one kind, or {"kinds": […]} of all.
nlohmann::ordered_json kind_json(const OperatorKind& kind);
nlohmann::ordered_json kinds_json();

/// The zoo and all kinds of operators, in Markdown.
std::string models_markdown();

}  // namespace pipesim
