#include <charconv>
#include <filesystem>

#include "sim/base/errors.h"
#include "tools/interop/shell/shell_run.h"

namespace pipesim {
namespace {

std::optional<std::int64_t> shell_integer(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

std::optional<bool> holds_for(const std::string& sign, std::int64_t a, std::int64_t b) {
  if (sign == "-eq") return a == b;
  if (sign == "-ne") return a != b;
  if (sign == "-lt") return a < b;
  if (sign == "-le") return a <= b;
  if (sign == "-gt") return a > b;
  if (sign == "-ge") return a >= b;
  return std::nullopt;
}

bool compares(const std::string& sign) {
  static const std::set<std::string> kSigns{"=",   "==",  "!=",  "=~",  "<",   ">",   "-eq",
                                            "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot"};
  return kSigns.contains(sign);
}

}  // namespace

ShellRun::Status ShellRun::test(const std::vector<ShellText>& operands) {
  if (operands.empty()) return Status::False;
  std::size_t at = 0;
  const Status status = test_any(operands, at, false, 0);
  return at == operands.size() ? status : Status::Unknown;
}

// [[ … ]], whose words are replaced one by one.
ShellRun::Status ShellRun::test_raw(const std::vector<ShellText>& raw) {
  std::size_t at = 0;
  const Status status = test_any(raw, at, true, 0);
  return at == raw.size() ? status : Status::Unknown;
}

ShellRun::Status ShellRun::test_any(const std::vector<ShellText>& words, std::size_t& at, bool raw,
                                    int depth) {
  Status status = test_all(words, at, raw, depth);
  while (at < words.size() && words[at].str() == (raw ? "||" : "-o")) {
    const Status right = test_all(words, ++at, raw, depth);
    if (status == Status::True || right == Status::True) {
      status = Status::True;
    } else if (right == Status::Unknown) {
      status = right;
    }
  }
  return status;
}

ShellRun::Status ShellRun::test_all(const std::vector<ShellText>& words, std::size_t& at, bool raw,
                                    int depth) {
  Status status = test_one(words, at, raw, depth);
  while (at < words.size() && words[at].str() == (raw ? "&&" : "-a")) {
    const Status right = test_one(words, ++at, raw, depth);
    if (status == Status::False || right == Status::False) {
      status = Status::False;
    } else if (right == Status::Unknown) {
      status = right;
    }
  }
  return status;
}

ShellRun::Status ShellRun::test_one(const std::vector<ShellText>& words, std::size_t& at, bool raw,
                                    int depth) {
  constexpr int kDeepest = 100;
  if (at >= words.size() || depth > kDeepest) return Status::Unknown;
  const std::string& word = words[at].str();
  const bool binary = at + 2 < words.size() && compares(words[at + 1].str());
  if (word == "!" && !binary) {
    const Status status = test_one(words, ++at, raw, depth + 1);
    return status == Status::True ? Status::False : status == Status::False ? Status::True : status;
  }
  if (word == "(" && !binary) {
    const Status status = test_any(words, ++at, raw, depth + 1);
    ++at;
    return status;
  }
  const auto value = [&](std::size_t i) { return raw ? joined(words[i]) : words[i]; };
  if (binary) {
    const std::size_t begin = at;
    at += 3;
    return compared(value(begin), words[begin + 1].str(), value(begin + 2), raw);
  }
  const bool unary = word.size() == 2 && word[0] == '-' && at + 1 < words.size();
  if (unary) {
    at += 2;
    return asked(word, value(at - 1));
  }
  const ShellText text = value(at++);
  if (text.empty()) return Status::False;
  return text.known() ? Status::True : Status::Unknown;
}

ShellRun::Status ShellRun::compared(const ShellText& left, const std::string& sign, const ShellText& right,
                                    bool pattern) {
  if (!left.known() || !right.known()) return Status::Unknown;
  const auto status = [](bool holds) { return holds ? Status::True : Status::False; };
  if (sign == "=" || sign == "==" || sign == "!=") {
    const bool same = pattern ? shell_matches(right.str(), left.str()) : left.str() == right.str();
    return status(same == (sign != "!="));
  }
  if (sign == "<") return status(left.str() < right.str());
  if (sign == ">") return status(left.str() > right.str());
  const auto a = pattern ? sum(left) : shell_integer(left.str());
  const auto b = pattern ? sum(right) : shell_integer(right.str());
  const auto holds = a && b ? holds_for(sign, *a, *b) : std::nullopt;
  return holds ? status(*holds) : Status::Unknown;
}

ShellRun::Status ShellRun::asked(const std::string& what, const ShellText& operand) {
  if (what == "-n" || what == "-z") {
    if (!operand.known()) return Status::Unknown;
    return operand.empty() == (what == "-z") ? Status::True : Status::False;
  }
  if (what == "-v") {
    const Found found = find(operand.str(), std::nullopt);
    return found.set ? Status::True : Status::False;
  }
  const bool file = what == "-f" || what == "-e" || what == "-r" || what == "-s";
  if (file && file_of(operand, operand.place(0), false)) return Status::True;
  return Status::Unknown;  // a matter of the machine that it will run on
}

// The file of this name beside the script, or beside a folder above it. Of a name that begins with what is
// not known, the rest is looked for.
std::optional<std::string> ShellRun::file_of(const ShellText& name, ShellPlace place, bool tells) {
  namespace fs = std::filesystem;
  std::size_t known = name.size();
  while (known > 0 && !name.place(known - 1).unknown) --known;
  std::string path = name.str().substr(name.empty() ? 0 : known);
  if (known > 0) path.erase(0, path.find_first_not_of('/'));
  const auto is_file = [](const fs::path& candidate) {
    std::error_code error;
    return fs::is_regular_file(candidate, error);
  };
  if (!path.empty() && path.find('\0') == std::string::npos) {
    if (known == 0 && state_.folder && is_file(fs::path(*state_.folder) / path))
      return (fs::path(*state_.folder) / path).string();
    if (known == 0 && fs::path(path).is_absolute()) {
      if (is_file(path)) return path;
    } else {
      std::error_code error;
      fs::path folder = fs::absolute(files_.front(), error).parent_path();
      constexpr int kFoldersAbove = 6;
      for (int i = 0; i < kFoldersAbove && !folder.empty(); ++i) {
        if (is_file(folder / path)) return (folder / path).string();
        if (folder == folder.parent_path()) break;
        folder = folder.parent_path();
      }
      if (known == 0 && is_file(path)) return path;  // as given, from here
    }
  }
  if (tells) {
    note(place, "\"" + name.str() + "\" is not there, so what it sets is not known");
    script_.missing.push_back(name.str());
  }
  return std::nullopt;
}

}  // namespace pipesim
