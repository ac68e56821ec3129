#include "tests/layers/markdown_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <regex>
#include <sstream>

namespace pipesim {
namespace {

namespace fs = std::filesystem;

// Each line outside blocks of code, with its number from 1.
void for_each_line_of_text(const std::string& text,
                           const std::function<void(std::size_t, const std::string&)>& use) {
  std::istringstream lines(text);
  bool in_code = false;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("```")) {
      in_code = !in_code;
    } else if (!in_code) {
      use(number, line);
    }
  }
}

std::string anchor_of(const std::string& title) {
  std::string anchor;
  for (const char c : title) {
    const auto letter = static_cast<unsigned char>(c);
    if (letter == ' ') {
      anchor += '-';
    } else if (std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter >= 0x80) {
      anchor += static_cast<char>(std::tolower(letter));
    }
  }
  return anchor;
}

}  // namespace

std::vector<std::string> anchors_of(const std::string& text) {
  static const std::regex heading(R"(#{1,6} +(.*\S) *)");
  std::vector<std::string> anchors;
  std::map<std::string, int> met;
  for_each_line_of_text(text, [&](std::size_t, const std::string& line) {
    std::smatch found;
    if (!std::regex_match(line, found, heading)) return;
    const std::string anchor = anchor_of(found[1]);
    const int before = met[anchor]++;
    anchors.push_back(before == 0 ? anchor : fmt::format("{}-{}", anchor, before));
  });
  return anchors;
}

std::vector<std::string> dead_links(const SourceFile& page, const std::map<std::string, std::string>& pages,
                                    const std::string& root) {
  static const std::regex code("`[^`]*`"), link(R"(\]\(([^)\s#]*)(#[^)\s]*)?\))"), elsewhere("[a-z]+:.*");
  std::vector<std::string> dead;
  for_each_line_of_text(page.text, [&](std::size_t number, const std::string& line) {
    const std::string text = std::regex_replace(line, code, "");
    for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found) {
      const std::string target = (*found)[1], anchor = (*found)[2];
      if (std::regex_match(target, elsewhere)) continue;
      const fs::path path = target.empty() ? fs::path(page.path)
                                           : (fs::path(page.path).parent_path() / target).lexically_normal();
      const auto refuse = [&](const char* reason) {
        dead.push_back(fmt::format("{}:{}: {}{}: {}", page.path, number, target, anchor, reason));
      };
      const auto other = pages.find(path.generic_string());
      if (other == pages.end() && !fs::exists(root / path)) {
        refuse("there is no such file");
      } else if (!anchor.empty()) {
        const std::vector<std::string> anchors =
            other == pages.end() ? std::vector<std::string>{} : anchors_of(other->second);
        if (std::ranges::find(anchors, anchor.substr(1)) == anchors.end()) refuse("no heading has this name");
      }
    }
  });
  return dead;
}

}  // namespace pipesim
