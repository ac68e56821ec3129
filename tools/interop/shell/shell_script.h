#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// A word of a command as the program gets it, and where it was written.
struct ShellWord {
  std::string text = {};
  std::string file = {};
  std::size_t line = 0;
};

/// What scripts ask the machine for. 0: it is not known.
struct ShellMachine {
  std::int64_t devices = 0, devices_of_host = 0;
};

/// What a script of the shell would start, as far as files tell it. Nothing is run: variables, sums, lists,
/// functions, conditions and loops are followed, files that it sources or prints are read beside it. A
/// variable that no file sets stays as `$NAME` in words, and is empty in conditions; a condition that needs
/// more than files is taken as false.
struct ShellScript {
  std::vector<std::vector<ShellWord>> commands;  ///< of programs that get a word with two dashes, in turn
  std::vector<ShellWord> values;                 ///< words of variables that hold such words
  std::map<std::string, std::string> exported;   ///< variables that programs see, as they were set last
  std::map<std::string, std::string> written;    ///< files that it writes, by their names
  std::vector<std::string> notes;                ///< "run.sh:3: …": what was taken, and need not be so
  std::vector<std::string> missing;  ///< files that it sources, prints or starts, and are not there
};

/// InputError `FILE:LINE: …` where a quote, parenthesis or block is not closed. `source`: the script's name;
/// other files are looked for in its folder and those above.
ShellScript read_shell_script(std::string_view text, const std::string& source,
                              const ShellMachine& machine = {});

}  // namespace pipesim
