#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pipesim {

/// Says for each of `layers` what it has, by one of `letters`. In a pattern a count may follow a letter or a
/// part in parentheses: "(W5F)8" is five W and an F, eight times. Of a pattern for more layers the first are
/// taken, so that a model can be cut short; one for fewer layers is repeated, and its length must divide
/// `layers`. InputError that names the place and what is allowed.
std::string letters_of_layers(std::string_view pattern, std::int64_t layers, std::string_view letters);

/// Returns a short pattern for letters that stand for a layer each.
std::string pattern_of_layers(std::string_view letters);

}  // namespace pipesim
