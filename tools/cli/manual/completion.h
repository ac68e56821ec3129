#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// Shells that complete pipesim's command lines: "bash", "zsh", "fish".
std::vector<std::string> completed_shells();

/// A script for one of them, by which it completes commands, their options, what these take (names of models,
/// topologies, algorithms, …), and files.
std::string completion_script(std::string_view shell);

}  // namespace pipesim
