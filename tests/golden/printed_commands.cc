#include "tests/golden/printed_commands.h"

#include <algorithm>
#include <regex>
#include <sstream>

namespace pipesim {
namespace {

const std::regex kComment(R"((^|\s+)# .*$)");
const std::regex kInSentence(R"(`((?:tools/)?pipesim [^`]+)`)");
const std::regex kOfClone("tools/pipesim ");
// A word that stands for another: NAME, FILE.json, N, …
const std::regex kStandsForAnother(R"((^|[\s=:/])([A-Z][A-Z_]*)(?=$|[\s.:])|…|\||\.\.\.)");

std::string without_comment(const std::string& line) {
  std::string command = std::regex_replace(std::regex_replace(line, kComment, ""), kOfClone, "pipesim ");
  while (!command.empty() && command.back() == ' ') command.pop_back();
  return command;
}

bool is_left_out(const std::string& line) { return line.find_first_not_of(" …") == std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A line without its figures and without how far its words stand apart.
std::string shape_of(const std::string& line) {
  static const std::regex kFigure(R"([0-9][0-9.,:]*)"), kBlanks(R"( +|-+)");
  return std::regex_replace(std::regex_replace(line, kFigure, "0"), kBlanks, " ");
}

std::string without_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

enum class Block { Sentences, Commands, Output, Other };

}  // namespace

std::vector<PrintedCommand> printed_commands(std::string_view text, const std::string& document) {
  std::vector<PrintedCommand> commands;
  Block block = Block::Sentences;
  bool goes_on = false;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with("```")) {
      const std::string kind = line.substr(3);
      if (block != Block::Sentences) {
        block = Block::Sentences;
      } else if (kind == "sh") {
        block = Block::Commands;
      } else {
        block = kind == "text" && !commands.empty() ? Block::Output : Block::Other;
      }
    } else if (block == Block::Commands) {
      std::string command = without_comment(line);
      const bool ends_open = command.ends_with('\\');
      if (ends_open) command.pop_back();
      if (goes_on) {
        commands.back().command += command;
      } else if (!command.empty()) {
        commands.push_back({document, number, command, {}});
      }
      goes_on = ends_open;
    } else if (block == Block::Output) {
      if (!is_left_out(line)) commands.back().shown.push_back(line);
    } else if (block == Block::Sentences) {
      for (std::sregex_iterator found(line.begin(), line.end(), kInSentence), end; found != end; ++found) {
        const std::string command = without_comment((*found)[1]);
        if (!std::regex_search(command, kStandsForAnother))
          commands.push_back({document, number, command, {}});
      }
    }
  }
  return commands;
}

RenewedText with_shown_lines(const std::string& text, const PrintedCommand& printed,
                             const std::string& output) {
  std::vector<std::string> lines = lines_of(text);
  RenewedText renewed;
  const std::vector<std::string> printed_now = lines_of(output);
  auto from = printed_now.begin();
  auto at = lines.begin() + printed.line;
  for (const std::string& shown : printed.shown) {
    at = std::find(at, lines.end(), shown);
    auto found = std::find_if(from, printed_now.end(), [&](const std::string& line) {
      return without_end(line) == without_end(shown);
    });
    if (found == printed_now.end()) {
      found = std::find_if(from, printed_now.end(), [&](const std::string& line) {
        return without_end(shape_of(line)) == without_end(shape_of(shown));
      });
    }
    if (found == printed_now.end()) {
      renewed.missing.push_back(shown);
      continue;
    }
    *at++ = without_end(*found);
    from = found + 1;
  }
  for (const std::string& line : lines) renewed.text += line + "\n";
  return renewed;
}

}  // namespace pipesim
