#include "tools/interop/shell/shell_parser.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "sim/base/errors.h"
#include "tools/interop/shell/shell_parts.h"

namespace pipesim {
namespace {

bool is_shell_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class ShellParser {
 public:
  ShellParser(const ShellText& text, const std::vector<std::string>& files) : text_(text), files_(files) {}

  ShellList all() {
    ShellList list = list_until({});
    if (at_ < text_.size()) fail(at_, fmt::format("\"{}\" closes nothing", text_[at_]));
    return list;
  }

  std::vector<ShellText> words_only() {
    std::vector<ShellText> words;
    while (true) {
      skip_lines();
      if (at_ >= text_.size()) return words;
      ShellText word = take_word();
      if (word.empty()) word.add(text_[at_], text_.place(at_)), ++at_;
      words.push_back(std::move(word));
    }
  }

 private:
  using Stops = std::vector<std::string_view>;
  static constexpr int kDeepest = 200;

  [[noreturn]] void fail(std::size_t at, const std::string& message) const {
    const ShellPlace place = text_.place(at);
    throw InputError(fmt::format("{}:{}: {}", files_[place.file], place.line, message));
  }
  [[nodiscard]] char now(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] bool ahead(std::string_view sign) const {
    return std::string_view(text_.str()).substr(at_).starts_with(sign);
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_shell_blank(text_[at_])) {
        ++at_;
      } else if (ahead("\\\n")) {
        at_ += 2;
      } else if (ahead("\\\r\n")) {
        at_ += 3;
      } else if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }
  // The end of a line begins the here-documents that it announces.
  void take_line_end() {
    ++at_;
    for (const Pending& pending : std::exchange(pending_, {})) {
      while (at_ < text_.size()) {
        const std::size_t end = std::min(text_.str().find('\n', at_), text_.size());
        std::size_t begin = at_;
        if (pending.strips) {
          while (begin < end && text_[begin] == '\t') ++begin;
        }
        std::string_view line = std::string_view(text_.str()).substr(begin, end - begin);
        if (line.ends_with('\r')) line.remove_suffix(1);
        at_ = std::min(end + 1, text_.size());
        if (line == pending.end) break;
        pending.lines->add(text_.part(begin, at_ - begin));
      }
    }
  }
  void skip_lines() {
    while (true) {
      skip_blanks();
      if (now() != '\n') return;
      take_line_end();
    }
  }

  // A word with its quotes and variables, as written; empty before a sign such as ; or |.
  ShellText take_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') {
        at_ = std::min(at_ + 2, text_.size());
      } else if (c == '\'' || c == '"' || c == '`' || c == '$') {
        take_part();
      } else if (c == '(' && at_ > begin && (text_[at_ - 1] == '=' || is_pattern(text_[at_ - 1]))) {
        take_parentheses();
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0 ||
                 std::string_view(";&|<>()").find(c) != std::string_view::npos) {
        break;
      } else {
        ++at_;
      }
    }
    return text_.part(begin, at_ - begin);
  }
  static bool is_pattern(char c) { return c == '@' || c == '?' || c == '*' || c == '+' || c == '!'; }
  void take_part() {
    const std::size_t end = end_of_shell_part(text_.str(), at_);
    if (end == std::string_view::npos) {
      const char c = text_[at_];
      const bool quote = c == '\'' || c == '"' || c == '`';
      fail(at_, quote ? "a quote is not closed" : "a parenthesis or brace is not closed");
    }
    at_ = end;
  }
  // An array: comments may stand between its words.
  void take_parentheses() {
    const std::size_t begin = at_++;
    while (true) {
      skip_blanks();
      if (at_ >= text_.size()) fail(begin, "a parenthesis or brace is not closed");
      const char c = text_[at_];
      if (c == ')') {
        ++at_;
        return;
      }
      const std::size_t before = at_;
      if (std::isspace(static_cast<unsigned char>(c)) == 0) take_word();
      if (at_ == before) ++at_;
    }
  }

  [[nodiscard]] std::string next_word() {
    const std::size_t begin = at_;
    const std::string word = take_word().str();
    at_ = begin;
    return word;
  }
  bool take_if(std::string_view word) {
    if (next_word() != word) return false;
    at_ += word.size();
    return true;
  }
  void take_keyword(std::string_view word, std::size_t begun, std::string_view of) {
    skip_lines();
    if (now() == ';' && now(1) != ';') {
      ++at_;
      skip_lines();
    }
    if (!take_if(word)) fail(begun, fmt::format("\"{}\" has no \"{}\"", of, word));
  }

  ShellList list_until(const Stops& stops) {
    if (++depth_ > kDeepest) fail(at_, fmt::format("blocks within each other, allowed: {}", kDeepest));
    ShellList list;
    while (true) {
      skip_lines();
      if (at_ >= text_.size() || now() == ')') break;
      if (ahead(";;")) break;
      if (now() == ';' || now() == '&') {
        ++at_;
        continue;
      }
      if (std::ranges::find(stops, next_word()) != stops.end()) break;
      list.push_back(chain());
    }
    --depth_;
    return list;
  }

  ShellNode chain() {
    ShellNode first = pipe();
    ShellNode node{.kind = ShellNode::Kind::Chain, .place = first.place};
    node.parts.push_back(std::move(first));
    while (true) {
      skip_blanks();
      if (!ahead("&&") && !ahead("||")) break;
      node.joints += now();
      at_ += 2;
      skip_lines();
      node.parts.push_back(pipe());
    }
    if (node.parts.size() == 1) return ShellNode(std::move(node.parts.front()));
    return node;
  }

  ShellNode pipe() {
    skip_blanks();
    const bool negated = take_if("!");
    skip_blanks();
    ShellNode first = command();
    ShellNode node{.kind = ShellNode::Kind::Pipe, .place = first.place};
    node.parts.push_back(std::move(first));
    while (true) {
      skip_blanks();
      if (now() != '|' || now(1) == '|') break;
      at_ += now(1) == '&' ? 2 : 1;
      skip_lines();
      node.parts.push_back(command());
    }
    if (node.parts.size() == 1 && !negated) return ShellNode(std::move(node.parts.front()));
    node.negated = negated;
    return node;
  }

  ShellNode command() {
    if (++depth_ > kDeepest) fail(at_, fmt::format("blocks within each other, allowed: {}", kDeepest));
    ShellNode node = command_here();
    --depth_;
    return node;
  }
  ShellNode command_here() {
    ShellNode node{.place = text_.place(at_)};
    const std::size_t begun = at_;
    if (ahead("((")) {
      const std::size_t end = end_of_shell_block(text_.str(), at_ + 1, '(', ')');
      if (end == std::string_view::npos) fail(begun, "a parenthesis or brace is not closed");
      node.kind = ShellNode::Kind::Sum;
      node.words.push_back(text_.part(at_ + 2, end - at_ - 4));
      at_ = end;
      return with_redirects(std::move(node));
    }
    if (now() == '(') {
      ++at_;
      node.kind = ShellNode::Kind::Group;
      node.apart = true;
      node.parts = list_until({});
      if (now() != ')') fail(begun, "a parenthesis or brace is not closed");
      ++at_;
      return with_redirects(std::move(node));
    }
    const std::string word = next_word();
    if (word == "if") return with_redirects(if_command(std::move(node), begun));
    if (word == "while" || word == "until") return with_redirects(loop(std::move(node), begun, word));
    if (word == "for" || word == "select") return with_redirects(for_loop(std::move(node), begun, word));
    if (word == "case") return with_redirects(choice(std::move(node), begun));
    if (word == "[[") return with_redirects(test(std::move(node), begun));
    if (word == "{") {
      at_ += 1;
      node.kind = ShellNode::Kind::Group;
      node.parts = block(begun);
      return with_redirects(std::move(node));
    }
    if (word == "function") {
      at_ += word.size();
      skip_blanks();
      const std::string name = take_word().str();
      skip_blanks();
      if (ahead("()")) at_ += 2;
      return function(std::move(node), name, begun);
    }
    return simple(std::move(node), begun);
  }

  // Commands up to the brace that closes.
  ShellList block(std::size_t begun) {
    ShellList list = list_until({"}"});
    if (!take_if("}")) fail(begun, "a parenthesis or brace is not closed");
    return list;
  }
  ShellNode function(ShellNode node, const std::string& name, std::size_t begun) {
    node.kind = ShellNode::Kind::Function;
    node.name = name;
    skip_lines();
    if (take_if("{")) {
      node.parts = block(begun);
    } else {
      node.parts.push_back(command());
    }
    return node;
  }

  ShellNode if_command(ShellNode node, std::size_t begun) {
    node.kind = ShellNode::Kind::If;
    at_ += 2;
    while (true) {
      node.lists.push_back(list_until({"then"}));
      take_keyword("then", begun, "if");
      node.lists.push_back(list_until({"elif", "else", "fi"}));
      if (take_if("elif")) continue;
      if (take_if("else")) node.lists.push_back(list_until({"fi"}));
      take_keyword("fi", begun, "if");
      return node;
    }
  }
  ShellList loop_body(std::size_t begun, std::string_view of) {
    take_keyword("do", begun, of);
    ShellList body = list_until({"done"});
    take_keyword("done", begun, of);
    return body;
  }
  ShellNode loop(ShellNode node, std::size_t begun, const std::string& word) {
    node.kind = ShellNode::Kind::While;
    node.until = word == "until";
    at_ += word.size();
    node.lists.push_back(list_until({"do"}));
    node.lists.push_back(loop_body(begun, word));
    return node;
  }
  ShellNode for_loop(ShellNode node, std::size_t begun, const std::string& word) {
    node.kind = ShellNode::Kind::For;
    at_ += word.size();
    skip_blanks();
    if (ahead("((")) {
      node.kind = ShellNode::Kind::Count;
      const std::size_t end = end_of_shell_block(text_.str(), at_ + 1, '(', ')');
      if (end == std::string_view::npos) fail(begun, "a parenthesis or brace is not closed");
      add_steps(node, text_.part(at_ + 2, end - at_ - 4));
      at_ = end;
    } else {
      node.name = take_word().str();
      skip_lines();
      if (take_if("in")) {
        while (true) {
          skip_blanks();
          ShellText item = take_word();
          if (item.empty()) break;
          node.words.push_back(std::move(item));
        }
      }
    }
    node.parts = loop_body(begun, word);
    return node;
  }
  // The three parts between semicolons.
  static void add_steps(ShellNode& node, const ShellText& text) {
    std::size_t begin = 0;
    for (std::size_t end = text.str().find(';'); end != std::string::npos;
         end = text.str().find(';', begin)) {
      node.words.push_back(text.part(begin, end - begin));
      begin = end + 1;
    }
    node.words.push_back(text.part(begin));
    node.words.resize(3);
  }
  ShellNode choice(ShellNode node, std::size_t begun) {
    node.kind = ShellNode::Kind::Case;
    at_ += std::string_view("case").size();
    skip_blanks();
    node.words.push_back(take_word());
    skip_lines();
    if (!take_if("in")) fail(begun, "\"case\" has no \"in\"");
    while (true) {
      skip_lines();
      if (take_if("esac")) return node;
      if (now() == '(') ++at_;
      std::vector<ShellText> patterns;
      while (true) {
        skip_blanks();
        patterns.push_back(take_word());
        skip_blanks();
        if (now() != '|') break;
        ++at_;
      }
      if (now() != ')') fail(begun, "\"case\" has no \"esac\"");
      ++at_;
      node.patterns.push_back(std::move(patterns));
      node.lists.push_back(list_until({"esac"}));
      if (ahead(";;")) at_ += now(2) == '&' ? 3 : 2;
    }
  }
  ShellNode test(ShellNode node, std::size_t begun) {
    node.kind = ShellNode::Kind::Test;
    at_ += 2;
    while (true) {
      skip_lines();
      if (at_ >= text_.size()) fail(begun, "\"[[\" has no \"]]\"");
      if (take_if("]]")) return node;
      const bool pattern = !node.words.empty() && node.words.back().str() == "=~";
      const std::size_t begin = at_;
      if (pattern) {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) == 0) ++at_;
      } else if (ahead("&&") || ahead("||")) {
        at_ += 2;
      } else if (take_word().empty()) {
        ++at_;
      }
      node.words.push_back(text_.part(begin, at_ - begin));
    }
  }

  ShellNode simple(ShellNode node, std::size_t begun) {
    while (true) {
      skip_blanks();
      if (take_redirect(node)) continue;
      ShellText word = take_word();
      if (word.empty()) break;
      const bool first = node.words.empty();
      node.words.push_back(std::move(word));
      skip_blanks();
      if (first && ahead("()") && shell_name_length(node.words[0].str()) > 0) {
        const std::string name = node.words[0].str();
        node.words.clear();
        at_ += 2;
        return function(std::move(node), name, begun);
      }
    }
    if (now() == '(') fail(at_, "found \"(\" within a command");
    if (at_ == begun) fail(at_, fmt::format("found \"{}\" where a command begins", now()));
    return node;
  }

  ShellNode with_redirects(ShellNode node) {
    do {
      skip_blanks();
    } while (take_redirect(node));
    return node;
  }
  bool take_redirect(ShellNode& node) {
    static constexpr std::array<std::string_view, 10> kSigns{"<<<", "<<-", "<<", ">>", "<&",
                                                             ">&",  ">|",  "<>", "<",  ">"};
    const std::size_t begin = at_;
    while (std::isdigit(static_cast<unsigned char>(now())) != 0) ++at_;
    if (at_ == begin && (ahead("&>"))) ++at_;
    for (const std::string_view sign : kSigns) {
      if (!ahead(sign)) continue;
      at_ += sign.size();
      skip_blanks();
      if (now() == '(') {  // the output of a command as a file
        const std::size_t end = end_of_shell_block(text_.str(), at_ + 1, '(', ')');
        if (end == std::string_view::npos) fail(begin, "a parenthesis or brace is not closed");
        at_ = end;
        return true;
      }
      ShellRedirect redirect{.sign = std::string(sign), .target = take_word(), .here = nullptr};
      if (sign == "<<" || sign == "<<-") announce(redirect);
      node.redirects.push_back(std::move(redirect));
      return true;
    }
    at_ = begin;
    return false;
  }
  void announce(ShellRedirect& redirect) {
    std::string end;
    for (const char c : redirect.target.str()) {
      if (c == '\'' || c == '"' || c == '\\') {
        redirect.expands = false;
      } else {
        end += c;
      }
    }
    redirect.here = std::make_shared<ShellText>();
    pending_.push_back({end, redirect.sign == "<<-", redirect.here});
  }

  struct Pending {
    std::string end;
    bool strips;
    std::shared_ptr<ShellText> lines;
  };
  const ShellText& text_;
  const std::vector<std::string>& files_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace

ShellList parse_shell(const ShellText& text, const std::vector<std::string>& files) {
  return ShellParser(text, files).all();
}

std::vector<ShellText> shell_words(const ShellText& text, const std::vector<std::string>& files) {
  return ShellParser(text, files).words_only();
}

}  // namespace pipesim
