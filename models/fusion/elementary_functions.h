#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "models/operator.h"

namespace pipesim {

/// A kind of operator that is a function of every element alone and has no attributes.
struct ElementFunction {
  std::string_view kind;
  double (*value)(double);
  bool joined = false;  ///< what others are joined to: an activation
};

/// Both forms of gelu are in the list.
std::span<const ElementFunction> element_functions();

/// Whether operators of the kind compute every element of their result from one element of each input.
bool is_elementary(std::string_view kind);
/// The results of such an operator, which has one or two inputs.
void compute_elements(std::string_view kind, const Attributes& attributes, std::span<const double> x,
                      std::span<const double> y, std::span<double> result);

}  // namespace pipesim
