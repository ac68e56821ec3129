#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// A command that a document prints, and what the document says that it prints.
struct PrintedCommand {
  std::string document;  ///< "docs/gpu.md"
  int line = 0;          ///< from 1
  std::string command;   ///< without its comment; "pipesim …" also where it says "tools/pipesim …"
  std::vector<std::string>
      shown;  ///< lines of its output that the document shows, in order; none: it shows none
  bool operator==(const PrintedCommand&) const = default;
};

/// The commands of a Markdown text, in order: the lines of ```sh blocks (a `\` at the end goes on in the next
/// line), and `pipesim …` or `tools/pipesim …` within a sentence. Commands with a word in capitals, "…" or
/// "|" are left out, as they stand for something else. A ```text block shows the output of the command before
/// it; lines of "…" stand for what it leaves out.
std::vector<PrintedCommand> printed_commands(std::string_view text, const std::string& document);

}  // namespace pipesim
