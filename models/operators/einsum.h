#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The letters of an einsum, one per dimension.
struct EinsumLetters {
  std::vector<std::string> operands;
  std::string result;
};

/// "bij,bjk->bik"; none if it is not of this form: letters only, no letter twice in one operand or in the
/// result, every letter of the result in an operand.
std::optional<EinsumLetters> einsum_letters(std::string_view equation);

}  // namespace pipesim
