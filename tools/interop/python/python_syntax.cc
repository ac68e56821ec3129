#include "tools/interop/python/python_syntax.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tools/interop/python/python_tokens.h"

namespace pipesim {
namespace {

using NodeKind = PythonNode::Kind;
using Token = PythonToken;

// What no rule here reads: the rest of its statement is skipped.
struct NotUnderstood {};

class PythonParser {
 public:
  explicit PythonParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  PythonNode module() {
    PythonNode block = node(NodeKind::Block);
    while (now().kind != Token::Kind::End) {
      if (now().kind == Token::Kind::Dedent || now().kind == Token::Kind::Indent) {
        ++at_;
        continue;
      }
      statement_into(block);
    }
    return block;
  }

 private:
  // Deeper ones are no configurations.
  static constexpr int kDeepest = 60;

  [[nodiscard]] const Token& now(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  [[nodiscard]] bool is_sign(std::string_view text) const {
    return now().kind == Token::Kind::Sign && now().text == text;
  }
  [[nodiscard]] bool is_word(std::string_view text) const {
    return now().kind == Token::Kind::Name && now().text == text;
  }
  bool take_sign(std::string_view text) {
    if (!is_sign(text)) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view text) {
    if (!is_word(text)) return false;
    ++at_;
    return true;
  }
  void expect_sign(std::string_view text) {
    if (!take_sign(text)) throw NotUnderstood();
  }
  std::string expect_name() {
    if (now().kind != Token::Kind::Name) throw NotUnderstood();
    return tokens_[at_++].text;
  }
  [[nodiscard]] PythonNode node(NodeKind kind, std::string text = "") const {
    return {kind, std::move(text), now().line, {}};
  }

  // --- statements

  void statement_into(PythonNode& block) {
    const std::size_t begin = at_;
    const int depth = depth_, depth_of_blocks = depth_of_blocks_;
    PythonNode skipped = node(NodeKind::Skipped, now().text);
    try {
      block.parts.push_back(statement());
      return;
    } catch (const NotUnderstood&) {
    }
    at_ = begin;
    depth_ = depth;
    depth_of_blocks_ = depth_of_blocks;
    skip_statement();
    block.parts.push_back(std::move(skipped));
  }

  // Its line, and the block behind it.
  void skip_statement() {
    while (now().kind != Token::Kind::Line && now().kind != Token::Kind::End &&
           now().kind != Token::Kind::Dedent && now().kind != Token::Kind::Indent)
      ++at_;
    if (now().kind == Token::Kind::Line) ++at_;
    if (now().kind != Token::Kind::Indent) return;
    int open = 0;
    do {
      if (now().kind == Token::Kind::Indent) ++open;
      if (now().kind == Token::Kind::Dedent) --open;
      if (now().kind == Token::Kind::End) return;
      ++at_;
    } while (open > 0);
  }

  PythonNode statement() {
    if (now().kind == Token::Kind::Line) {
      ++at_;
      return node(NodeKind::Empty);
    }
    if (now().kind == Token::Kind::Name) {
      const std::string& word = now().text;
      if (word == "def") return function();
      if (word == "if") return condition();
      if (word == "for") return loop();
      if (word == "try") return attempt();
      if (word == "from" || word == "import") return import();
      static constexpr std::array<std::string_view, 9> kOthers{"class",  "while", "with",  "async", "raise",
                                                               "global", "del",   "yield", "match"};
      if (std::ranges::find(kOthers, word) != kOthers.end() && now(1).kind != Token::Kind::Sign)
        throw NotUnderstood();
      if (word == "return") return end_of_line(returned());
      if (word == "pass" || word == "assert" || word == "break" || word == "continue") {
        PythonNode empty = node(NodeKind::Empty);
        skip_statement();
        return empty;
      }
    }
    return end_of_line(assignment());
  }

  PythonNode end_of_line(PythonNode statement) {
    if (now().kind != Token::Kind::Line && now().kind != Token::Kind::End && !is_sign(";"))
      throw NotUnderstood();
    if (now().kind != Token::Kind::End) ++at_;
    return statement;
  }

  PythonNode returned() {
    PythonNode result = node(NodeKind::Return);
    ++at_;
    result.parts.push_back(now().kind == Token::Kind::Line ? node(NodeKind::None) : tuple());
    return result;
  }

  PythonNode assignment() {
    PythonNode result = node(NodeKind::Expression);
    PythonNode first = tuple();
    if (take_sign(":")) {
      expression();
      if (!is_sign("=")) return node(NodeKind::Empty);
    }
    static constexpr std::array<std::string_view, 8> kSigns{"=", "+=", "-=", "*=", "/=", "//=", "|=", "%="};
    const bool assigns =
        now().kind == Token::Kind::Sign && std::ranges::find(kSigns, now().text) != kSigns.end();
    if (!assigns) {
      result.parts.push_back(std::move(first));
      return result;
    }
    result.kind = NodeKind::Assign;
    result.text = tokens_[at_++].text;
    result.parts.push_back(std::move(first));
    result.parts.push_back(tuple());
    if (is_sign("=")) throw NotUnderstood();
    return result;
  }

  PythonNode block() {
    expect_sign(":");
    PythonNode result = node(NodeKind::Block);
    if (now().kind != Token::Kind::Line) {
      statement_into(result);
      return result;
    }
    ++at_;
    if (now().kind != Token::Kind::Indent) throw NotUnderstood();
    ++at_;
    if (++depth_of_blocks_ > kDeepest) throw NotUnderstood();
    while (now().kind != Token::Kind::Dedent && now().kind != Token::Kind::End) statement_into(result);
    --depth_of_blocks_;
    if (now().kind == Token::Kind::Dedent) ++at_;
    return result;
  }

  PythonNode function() {
    PythonNode result = node(NodeKind::Function);
    ++at_;
    result.text = expect_name();
    expect_sign("(");
    while (!take_sign(")")) {
      if (take_sign("*") || take_sign("**") || take_sign("/")) {
        take_sign(",");
        continue;
      }
      PythonNode parameter = node(NodeKind::Name, expect_name());
      if (take_sign(":")) expression();
      if (take_sign("=")) {
        parameter.kind = NodeKind::Keyword;
        parameter.parts.push_back(expression());
      }
      result.parts.push_back(std::move(parameter));
      if (!is_sign(")")) expect_sign(",");
    }
    if (take_sign("->")) expression();
    result.parts.push_back(block());
    return result;
  }

  PythonNode condition() {
    PythonNode result = node(NodeKind::Condition);
    ++at_;
    result.parts.push_back(expression());
    result.parts.push_back(block());
    if (is_word("elif")) {
      if (++depth_of_blocks_ > kDeepest) throw NotUnderstood();
      PythonNode other = node(NodeKind::Block);
      other.parts.push_back(condition());
      --depth_of_blocks_;
      result.parts.push_back(std::move(other));
    } else if (take_word("else")) {
      result.parts.push_back(block());
    }
    return result;
  }

  PythonNode loop() {
    PythonNode result = node(NodeKind::Loop);
    ++at_;
    PythonNode target = node(NodeKind::List);
    do {
      target.parts.push_back(primary());
    } while (take_sign(",") && !is_word("in"));
    if (!take_word("in")) throw NotUnderstood();
    if (target.parts.size() == 1) target = PythonNode(target.parts.front());
    result.parts.push_back(std::move(target));
    result.parts.push_back(tuple());
    result.parts.push_back(block());
    return result;
  }

  // What follows where nothing fails.
  PythonNode attempt() {
    ++at_;
    PythonNode result = block();
    while (is_word("except") || is_word("finally") || is_word("else")) skip_statement();
    return result;
  }

  std::string dotted_name() {
    std::string name;
    while (is_sign(".") || is_sign("...")) name += tokens_[at_++].text;
    if (now().kind == Token::Kind::Name && now().text != "import") name += expect_name();
    while (take_sign(".")) name += "." + expect_name();
    return name;
  }

  PythonNode import() {
    PythonNode result = node(NodeKind::Block);
    const bool from = is_word("from");
    ++at_;
    const std::string module = dotted_name();
    const auto named = [&](std::string here, std::string there) {
      PythonNode one = node(NodeKind::Import, std::move(here));
      one.parts.push_back(node(NodeKind::Name, std::move(there)));
      result.parts.push_back(std::move(one));
    };
    if (!from) {
      if (take_word("as")) named(expect_name(), module);
      skip_statement();
      return result;
    }
    if (!take_word("import")) throw NotUnderstood();
    const bool bracket = take_sign("(");
    while (now().kind == Token::Kind::Name) {
      const std::string there = expect_name();
      const std::string here = take_word("as") ? expect_name() : there;
      named(here, module.ends_with('.') ? module + there : module + "." + there);
      if (!take_sign(",")) break;
    }
    if (bracket) expect_sign(")");
    skip_statement();
    return result;
  }

  // --- expressions

  PythonNode tuple() {
    PythonNode first = expression();
    if (!is_sign(",")) return first;
    PythonNode list{NodeKind::List, "", first.line, {}};
    list.parts.push_back(std::move(first));
    while (take_sign(",")) {
      if (now().kind == Token::Kind::Line || is_sign("=") || is_sign(")")) break;
      list.parts.push_back(expression());
    }
    return list;
  }

  PythonNode expression() {
    if (++depth_ > kDeepest) throw NotUnderstood();
    PythonNode result = is_word("lambda") ? unread() : choice();
    --depth_;
    return result;
  }

  PythonNode choice() {
    if (is_sign("*") || is_sign("**")) {
      PythonNode spread = node(NodeKind::Spread);
      ++at_;
      spread.parts.push_back(binary(0));
      return spread;
    }
    PythonNode first = binary(0);
    if (!is_word("if")) return first;
    PythonNode result = node(NodeKind::Choice);
    ++at_;
    result.parts.push_back(std::move(first));
    result.parts.push_back(binary(0));
    if (!take_word("else")) throw NotUnderstood();
    result.parts.push_back(expression());
    return result;
  }

  PythonNode binary(int least) {
    if (++depth_ > kDeepest) throw NotUnderstood();
    PythonNode left = unary();
    while (true) {
      auto [sign, level] = joining_sign(now(), now(1));
      if (sign.empty() || level < least) break;
      at_ += sign == "not in" ? std::size_t{2} : std::size_t{1};
      if (sign == "is" && take_word("not")) sign = "is not";
      PythonNode joined{NodeKind::Sign, sign, left.line, {}};
      joined.parts.push_back(std::move(left));
      joined.parts.push_back(binary(level + 1));
      left = std::move(joined);
    }
    --depth_;
    return left;
  }

  PythonNode unary() {
    const bool sign = is_sign("-") || is_sign("+") || is_sign("~") || is_word("not");
    if (!sign) return primary();
    if (++depth_ > kDeepest) throw NotUnderstood();
    PythonNode result = node(NodeKind::Sign, now().text);
    ++at_;
    constexpr int kComparisons = 2, kPowers = 6;
    result.parts.push_back(result.text == "not" ? binary(kComparisons) : binary(kPowers));
    --depth_;
    return result;
  }

  PythonNode primary() {
    PythonNode value = atom();
    while (true) {
      if (take_sign(".")) {
        PythonNode field = node(NodeKind::Field, expect_name());
        field.parts.push_back(std::move(value));
        value = std::move(field);
      } else if (is_sign("(")) {
        value = call(std::move(value));
      } else if (take_sign("[")) {
        PythonNode item = node(NodeKind::Item);
        item.parts.push_back(std::move(value));
        item.parts.push_back(is_sign(":") ? unread() : tuple());
        if (is_sign(":")) unread();
        expect_sign("]");
        value = std::move(item);
      } else {
        return value;
      }
    }
  }

  PythonNode call(PythonNode callee) {
    PythonNode result = node(NodeKind::Call);
    expect_sign("(");
    result.parts.push_back(std::move(callee));
    while (!take_sign(")")) {
      if (now().kind == Token::Kind::Name && now(1).kind == Token::Kind::Sign && now(1).text == "=") {
        PythonNode keyword = node(NodeKind::Keyword, now().text);
        at_ += 2;
        keyword.parts.push_back(expression());
        result.parts.push_back(std::move(keyword));
      } else {
        result.parts.push_back(expression());
        if (is_word("for")) unread();
      }
      if (!is_sign(")")) expect_sign(",");
    }
    return result;
  }

  PythonNode atom() {
    const Token token = now();
    PythonNode result = node(NodeKind::None);
    switch (token.kind) {
      case Token::Kind::Number:
        result = node(NodeKind::Number, token.text);
        break;
      case Token::Kind::Text:
        return texts();
      case Token::Kind::Name:
        result.kind = token.text == "None" ? NodeKind::None : NodeKind::Name;
        if (token.text == "True" || token.text == "False") result.kind = NodeKind::Truth;
        result.text = token.text;
        break;
      case Token::Kind::Sign:
        if (token.text == "...") break;
        return bracket();
      default:
        throw NotUnderstood();
    }
    ++at_;
    return result;
  }

  // Neighbours are one text.
  PythonNode texts() {
    PythonNode result = node(NodeKind::Text);
    for (; now().kind == Token::Kind::Text; ++at_) {
      if (now().formatted) result.kind = NodeKind::Unread;
      result.text += now().text;
    }
    return result;
  }

  PythonNode bracket() {
    const std::string open = now().text;
    if (open != "(" && open != "[" && open != "{") throw NotUnderstood();
    const std::string close = open == "(" ? ")" : open == "[" ? "]" : "}";
    PythonNode list = node(open == "{" ? NodeKind::Dictionary : NodeKind::List);
    ++at_;
    bool tuple = open != "(";
    while (!take_sign(close)) {
      list.parts.push_back(expression());
      if (open == "{") {
        if (list.parts.back().kind == NodeKind::Spread) {
          list.parts.push_back(node(NodeKind::None));
        } else if (take_sign(":")) {
          list.parts.push_back(expression());
        } else if (list.kind == NodeKind::Dictionary) {
          list.kind = NodeKind::List;  // a set
        }
      }
      if (is_word("for") || is_word("async")) {
        PythonNode whole = unread();
        expect_sign(close);
        return whole;
      }
      if (is_sign(",")) tuple = true;
      if (!is_sign(close)) expect_sign(",");
    }
    if (!tuple && list.parts.size() == 1) return PythonNode(list.parts.front());
    return list;
  }

  // What stands up to the end of the argument, or of the bracket.
  PythonNode unread() {
    PythonNode result = node(NodeKind::Unread);
    int open = 0;
    for (;; ++at_) {
      const Token& token = now();
      if (token.kind == Token::Kind::End || token.kind == Token::Kind::Line) break;
      if (token.kind == Token::Kind::Sign) {
        const std::string& sign = token.text;
        if (open == 0 && (sign == ")" || sign == "]" || sign == "}")) break;
        if (open == 0 && sign == "," && result.text.starts_with("lambda")) break;
        if (sign == "(" || sign == "[" || sign == "{") ++open;
        if (sign == ")" || sign == "]" || sign == "}") --open;
      }
      result.text += (result.text.empty() ? "" : " ") + token.text;
    }
    return result;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, depth_of_blocks_ = 0;
};

}  // namespace

PythonNode parse_python(std::string_view text, const std::string& source) {
  return PythonParser(python_tokens(text, source)).module();
}

}  // namespace pipesim
