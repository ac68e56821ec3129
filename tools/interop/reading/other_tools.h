#pragma once

#include <string>
#include <string_view>

namespace pipesim {

/// The tool that a configuration is of, such as "LLaMA-Factory", by keys and names that only its files have;
/// "": none that is known. `file`: its name.
std::string tool_of_configuration(std::string_view text, const std::string& file);

/// The tool that a script of the shell starts.
std::string tool_of_script(std::string_view text);

}  // namespace pipesim
