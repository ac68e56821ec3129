#pragma once

#include <string>

namespace pipesim {

/// A JSON Schema (draft-07) of model files, with the attributes of all kinds
/// of operators.
std::string model_schema();

}  // namespace pipesim
