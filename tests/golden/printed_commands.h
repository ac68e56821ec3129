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

/// A document's text with what it shows of a command's output brought up to date.
struct RenewedText {
  std::string text;
  std::vector<std::string> missing;  ///< lines that the output has no more, but for the figures in them
};

/// Looks for each line that the document shows of the command in `output`, behind the one before. Where it is
/// not there, the first line that differs from it in figures and blanks alone takes its place.
RenewedText with_shown_lines(const std::string& text, const PrintedCommand& printed,
                             const std::string& output);

}  // namespace pipesim
