#pragma once

#include <cstddef>
#include <string_view>

namespace pipesim {

/// Behind the parenthesis or brace that closes what is open before `at`; npos as below.
std::size_t end_of_shell_block(std::string_view text, std::size_t at, char open, char close,
                               int depth_of_parts = 0);

/// Behind the end of what opens at `begin` with a quote, `$(`, `${`, `$((` or a backtick; npos if it stays
/// open, or holds very many within each other (`depth`: so far).
std::size_t end_of_shell_part(std::string_view text, std::size_t begin, int depth = 0);

/// Length of the name of a variable that `text` begins with; 0: none.
std::size_t shell_name_length(std::string_view text);

}  // namespace pipesim
