#include "tools/interop/python/python_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & '\x80') != 0;
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class PythonLexer {
 public:
  PythonLexer(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::vector<PythonToken> read() {
    while (at_ < text_.size()) {
      if (begins_line_ && open_ == 0) read_indentation();
      if (at_ < text_.size()) read_token();
    }
    if (open_ > 0) fail(open_line_, "a bracket is not closed");
    end_line();
    while (indents_.size() > 1) indents_.pop_back(), add(Kind::Dedent, "");
    add(Kind::End, "");
    return std::move(tokens_);
  }

 private:
  using Kind = PythonToken::Kind;

  [[noreturn]] void fail(std::size_t line, const char* what) const {
    throw InputError(fmt::format("{}:{}: {}", source_, line, what));
  }
  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void end_line() {
    if (!tokens_.empty() && tokens_.back().kind != Kind::Line && tokens_.back().kind != Kind::Indent &&
        tokens_.back().kind != Kind::Dedent)
      add(Kind::Line, "");
  }
  [[nodiscard]] char ahead(std::size_t by = 0) const {
    return at_ + by < text_.size() ? text_[at_ + by] : '\0';
  }

  // Lines without words change no block.
  void read_indentation() {
    begins_line_ = false;
    std::size_t width = 0;
    constexpr std::size_t kTab = 8;
    for (; ahead() == ' ' || ahead() == '\t'; ++at_) width += ahead() == '\t' ? kTab : 1;
    if (ahead() == '#' || ahead() == '\n' || ahead() == '\r' || at_ >= text_.size()) return;
    if (width > indents_.back()) {
      indents_.push_back(width);
      add(Kind::Indent, "");
    }
    while (width < indents_.back()) indents_.pop_back(), add(Kind::Dedent, "");
  }

  void read_token() {
    const char c = ahead();
    if (c == '\n') {
      if (open_ == 0) end_line();
      ++at_, ++line_;
      begins_line_ = open_ == 0;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\\' && (ahead(1) == '\n' || (ahead(1) == '\r' && ahead(2) == '\n'))) {
      at_ += ahead(1) == '\r' ? std::size_t{3} : std::size_t{2};
      ++line_;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at_;
    } else if (c == '"' || c == '\'') {
      read_text(false, false);
    } else if (is_letter(c)) {
      read_name();
    } else if (is_digit(c) || (c == '.' && is_digit(ahead(1)))) {
      read_number();
    } else {
      read_sign();
    }
  }

  void read_name() {
    const std::size_t begin = at_;
    while (is_letter(ahead()) || is_digit(ahead())) ++at_;
    const std::string name(text_.substr(begin, at_ - begin));
    constexpr std::size_t kLongestPrefix = 2;
    const bool prefix =
        name.size() <= kLongestPrefix && name.find_first_not_of("fFrRbBuU") == std::string::npos;
    if (prefix && (ahead() == '"' || ahead() == '\'')) {
      read_text(name.find_first_of("fF") != std::string::npos, name.find_first_of("rR") != std::string::npos);
    } else {
      add(Kind::Name, name);
    }
  }

  void read_number() {
    const std::size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(ahead())) != 0 || ahead() == '.' || ahead() == '_' ||
           ((ahead() == '+' || ahead() == '-') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') &&
            !text_.substr(begin).starts_with("0x")))
      ++at_;
    std::string number(text_.substr(begin, at_ - begin));
    std::erase(number, '_');
    add(Kind::Number, number);
  }

  void read_text(bool formatted, bool raw) {
    const char quote = ahead();
    const bool triple = ahead(1) == quote && ahead(2) == quote;
    const std::size_t begin_line = line_;
    at_ += triple ? std::size_t{3} : std::size_t{1};
    std::string text;
    while (true) {
      if (at_ >= text_.size() || (!triple && ahead() == '\n')) fail(begin_line, "a quote is not closed");
      const char c = ahead();
      if (c == quote && (!triple || (ahead(1) == quote && ahead(2) == quote))) break;
      if (c == '\n') ++line_;
      if (c == '\\' && !raw && at_ + 1 < text_.size()) {
        const char next = ahead(1);
        if (next == '\n') ++line_;
        if (next != '\n') text += next == 'n' ? '\n' : next == 't' ? '\t' : next;
        at_ += 2;
      } else {
        text += c;
        ++at_;
      }
    }
    at_ += triple ? std::size_t{3} : std::size_t{1};
    tokens_.push_back({Kind::Text, std::move(text), begin_line, formatted});
  }

  void read_sign() {
    static constexpr std::array<std::string_view, 22> kLong{
        "**=", "//=", "->", ":=", "==", "!=", "<=", ">=", "+=", "-=", "*=",
        "/=",  "%=",  "|=", "&=", "^=", "**", "//", "<<", ">>", "@=", "..."};
    std::string sign(1, ahead());
    for (const std::string_view longer : kLong) {
      if (text_.substr(at_).starts_with(longer) && longer.size() > sign.size()) sign = longer;
    }
    if (sign == "(" || sign == "[" || sign == "{") {
      if (open_++ == 0) open_line_ = line_;
    } else if ((sign == ")" || sign == "]" || sign == "}") && open_ > 0) {
      --open_;
    }
    at_ += sign.size();
    add(Kind::Sign, sign);
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0, line_ = 1, open_line_ = 0;
  int open_ = 0;
  bool begins_line_ = true;
  std::vector<std::size_t> indents_{0};
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view text, const std::string& source) {
  return PythonLexer(text, source).read();
}

std::pair<std::string, int> joining_sign(const PythonToken& token, const PythonToken& next) {
  static constexpr std::array<std::array<std::string_view, 8>, 6> kLevels{
      {{"or"},
       {"and"},
       {"in", "is", "==", "!=", "<", ">", "<=", ">="},
       {"|", "&", "^", "<<", ">>"},
       {"+", "-"},
       {"*", "/", "//", "%", "@"}}};
  using Kind = PythonToken::Kind;
  if (token.kind == Kind::Name && token.text == "not" && next.text == "in") return {"not in", 2};
  if (token.kind != Kind::Sign && token.kind != Kind::Name) return {"", 0};
  for (std::size_t level = 0; level < kLevels.size(); ++level) {
    for (const std::string_view sign : kLevels[level]) {
      if (!sign.empty() && token.text == sign) return {std::string(sign), static_cast<int>(level)};
    }
  }
  if (token.kind == Kind::Sign && token.text == "**") return {"**", 6};
  return {"", 0};
}

}  // namespace pipesim
