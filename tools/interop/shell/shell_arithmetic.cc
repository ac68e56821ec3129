#include "tools/interop/shell/shell_arithmetic.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "tools/interop/shell/shell_parser.h"
#include "tools/interop/shell/shell_parts.h"

namespace pipesim {
namespace {

using SumValue = std::optional<std::int64_t>;

struct SumSign {
  std::string_view text;
  int rank;  // higher binds more closely
};
constexpr std::array kSumSigns = std::to_array<SumSign>({{"**", 12},
                                                         {"<<", 9},
                                                         {">>", 9},
                                                         {"<=", 8},
                                                         {">=", 8},
                                                         {"==", 7},
                                                         {"!=", 7},
                                                         {"&&", 3},
                                                         {"||", 2},
                                                         {"*", 11},
                                                         {"/", 11},
                                                         {"%", 11},
                                                         {"+", 10},
                                                         {"-", 10},
                                                         {"<", 8},
                                                         {">", 8},
                                                         {"&", 6},
                                                         {"^", 5},
                                                         {"|", 4}});

SumValue power_of(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  std::int64_t result = 1;
  constexpr std::int64_t kMost = 64;  // beyond, only 0, 1 and -1 stay within 64 bits
  if (exponent > kMost && base != 0 && base != 1) return std::nullopt;
  for (std::int64_t i = 0; i < std::min(exponent, kMost); ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

SumValue combined(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (sign == "+") return __builtin_add_overflow(a, b, &r) ? SumValue() : r;
  if (sign == "-") return __builtin_sub_overflow(a, b, &r) ? SumValue() : r;
  if (sign == "*") return __builtin_mul_overflow(a, b, &r) ? SumValue() : r;
  if (sign == "/" || sign == "%") {
    if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
    return sign == "/" ? a / b : a % b;
  }
  if (sign == "**") return power_of(a, b);
  if (sign == "<<" || sign == ">>") {
    constexpr std::int64_t kBits = 62;
    if (a < 0 || b < 0 || b > kBits) return std::nullopt;
    if (sign == ">>") return a >> b;
    return a > (std::numeric_limits<std::int64_t>::max() >> b) ? SumValue() : a << b;
  }
  if (sign == "<") return a < b ? 1 : 0;
  if (sign == ">") return a > b ? 1 : 0;
  if (sign == "<=") return a <= b ? 1 : 0;
  if (sign == ">=") return a >= b ? 1 : 0;
  if (sign == "==") return a == b ? 1 : 0;
  if (sign == "!=") return a != b ? 1 : 0;
  if (sign == "&&") return a != 0 && b != 0 ? 1 : 0;
  if (sign == "||") return a != 0 || b != 0 ? 1 : 0;
  if (sign == "&") return a & b;
  if (sign == "^") return a ^ b;
  return a | b;
}

class SumReader {
 public:
  SumReader(std::string_view text, const ShellNumbers& numbers) : text_(text), numbers_(numbers) {}

  SumValue all() {
    SumValue value;
    do {
      value = assignment();
    } while (take(","));
    skip();
    return at_ == text_.size() && !broken_ ? value : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 100;

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  [[nodiscard]] bool ahead(std::string_view sign) {
    skip();
    return text_.substr(at_).starts_with(sign);
  }
  bool take(std::string_view sign) {
    if (!ahead(sign)) return false;
    at_ += sign.size();
    return true;
  }
  SumValue refuse() {
    broken_ = true;
    at_ = text_.size();
    return std::nullopt;
  }

  // NAME = sum, NAME += sum, or a sum.
  SumValue assignment() {
    if (++depth_ > kDeepest) return refuse();
    skip();
    const std::size_t begin = at_, length = shell_name_length(text_.substr(at_));
    if (length > 0) {
      const std::string name(text_.substr(at_, length));
      at_ += length;
      skip();
      static constexpr std::string_view kSigns = "+-*/%";
      std::string sign;
      if (at_ + 1 < text_.size() && kSigns.find(text_[at_]) != std::string_view::npos &&
          text_[at_ + 1] == '=')
        sign = text_[at_];
      const bool sets = !sign.empty() || (ahead("=") && !ahead("=="));
      if (sets) {
        at_ += sign.size() + 1;
        const SumValue right = assignment();
        const SumValue left = sign.empty() ? SumValue() : numbers_.get(name);
        const SumValue value = sign.empty()    ? right
                               : left && right ? combined(sign, *left, *right)
                                               : std::nullopt;
        numbers_.set(name, value);
        --depth_;
        return value;
      }
      at_ = begin;
    }
    const SumValue value = choice();
    --depth_;
    return value;
  }
  SumValue choice() {
    const SumValue condition = binary(1);
    if (!take("?")) return condition;
    const SumValue yes = assignment();
    if (!take(":")) return refuse();
    const SumValue no = assignment();
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }
  SumValue binary(int least) {
    if (++depth_ > kDeepest) return refuse();
    const SumValue value = binary_value(least);
    --depth_;
    return value;
  }
  SumValue binary_value(int least) {
    SumValue left = unary();
    while (true) {
      const SumSign* sign = nullptr;
      for (const SumSign& s : kSumSigns) {
        if (ahead(s.text)) {
          sign = &s;
          break;
        }
      }
      if (sign == nullptr || sign->rank < least) return left;
      at_ += sign->text.size();
      const SumValue right = binary(sign->text == "**" ? sign->rank : sign->rank + 1);
      left = left && right ? combined(sign->text, *left, *right) : std::nullopt;
    }
  }
  SumValue unary() {
    if (++depth_ > kDeepest) return refuse();
    const SumValue value = unary_value();
    --depth_;
    return value;
  }
  SumValue unary_value() {
    if (take("++")) return changed_before(1);
    if (take("--")) return changed_before(-1);
    if (take("-")) {
      const SumValue value = unary();
      return value ? combined("-", 0, *value) : value;
    }
    if (take("+")) return unary();
    if (take("!")) {
      const SumValue value = unary();
      return value ? SumValue(*value == 0 ? 1 : 0) : value;
    }
    if (take("~")) {
      const SumValue value = unary();
      return value ? SumValue(~*value) : value;
    }
    return primary();
  }
  SumValue changed_before(std::int64_t by) {
    skip();
    const std::size_t length = shell_name_length(text_.substr(at_));
    if (length == 0) return refuse();
    const std::string name(text_.substr(at_, length));
    at_ += length;
    const SumValue old = numbers_.get(name), now = old ? combined("+", *old, by) : old;
    numbers_.set(name, now);
    return now;
  }
  SumValue primary() {
    if (take("(")) {
      const SumValue value = assignment();
      return take(")") ? value : refuse();
    }
    skip();
    const std::size_t length = shell_name_length(text_.substr(at_));
    if (length > 0) {
      const std::string name(text_.substr(at_, length));
      at_ += length;
      const SumValue value = numbers_.get(name);
      const int by = take("++") ? 1 : take("--") ? -1 : 0;
      if (by != 0) numbers_.set(name, value ? combined("+", *value, by) : value);
      return value;
    }
    return number();
  }
  // 010 is eight, and 0x10 sixteen.
  SumValue number() {
    std::string_view digits = text_.substr(at_);
    std::int64_t value = 0;
    constexpr int kOctal = 8, kDecimal = 10, kHexadecimal = 16;
    int base = kDecimal;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      base = kHexadecimal;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0' &&
               std::isdigit(static_cast<unsigned char>(digits[1])) != 0) {
      base = kOctal;
    }
    const char* const end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value, base);
    if (error != std::errc()) return refuse();
    at_ = static_cast<std::size_t>(stopped - text_.data());
    return value;
  }

  std::string_view text_;
  const ShellNumbers& numbers_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool broken_ = false;
};

}  // namespace

std::optional<std::int64_t> shell_sum(std::string_view text, const ShellNumbers& numbers) {
  return SumReader(text, numbers).all();
}

}  // namespace pipesim
