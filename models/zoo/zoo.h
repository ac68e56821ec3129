#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "models/operator_graph.h"
#include "models/zoo/options.h"

namespace pipesim {

/// A published network that builds itself from a few sizes. It ends in a loss; where it has several (one per
/// unrolled step), the training loss is their sum.
struct ZooModel {
  std::string name;
  std::string description;  ///< one line
  std::string source;       ///< the paper, and whose version where there are several
  ZooOptions options;
  std::function<OperatorGraph(const ZooValues&)> build;
};

/// All models, by family. Names are unique.
std::span<const ZooModel> zoo_models();

/// The part of "NAME" or "NAME:key=value,key=value" before the colon names a zoo model.
bool names_zoo_model(std::string_view text);

/// Builds the model "NAME" or "NAME:key=value,key=value". Its graph is named by the same text with defaults
/// left out and the options in the table's order. InputError on unknown names (with the allowed ones) and bad
/// values.
OperatorGraph make_zoo_model(std::string_view text);

/// For people: a line per model.
std::string zoo_listing();
/// For people: description, source and options of the model `name`. InputError if the zoo has none.
std::string zoo_description(std::string_view name);

}  // namespace pipesim
