#include "tools/interop/settings/toml_settings.h"

#include <fmt/format.h>

namespace pipesim {
namespace {
struct BrokenToml {};  // what toml++ takes for impossible
}  // namespace
}  // namespace pipesim
// Some of its functions that throw nothing assert, too.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wterminate"
#endif
#define TOML_ASSERT(expression)                       \
  do {                                                \
    if (!(expression)) throw ::pipesim::BrokenToml(); \
  } while (false)
#include <toml++/toml.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <map>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// No TOML has characters of control. toml++ is not ready for letters beyond ASCII where they make no sense;
// no setting that is read has any, so a sign stands for each of their bytes.
std::string ascii_of_toml(std::string_view text, const std::string& source) {
  std::string plain(text);
  std::size_t line = 1;
  constexpr unsigned char kDelete = 0x7f;
  for (char& c : plain) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') ++line;
    if ((byte < ' ' && c != '\n' && c != '\r' && c != '\t') || byte == kDelete)
      throw InputError(fmt::format("{}:{}: is no TOML: found a character of control", source, line));
    if (byte > kDelete) c = '?';
  }
  return plain;
}

class TomlReader {
 public:
  explicit TomlReader(const std::string& source) : source_(source) {}

  void read(const toml::table& table, const std::string& before) {
    for (const auto& [key, node] : table) {
      const std::string path = before + std::string(key.str());
      if (const toml::table* inner = node.as_table()) {
        read(*inner, path + ".");
      } else {
        by_line_.emplace(node.source().begin.line, setting_of(node, path));
      }
    }
  }
  // In the order of the file.
  Settings take() {
    Settings settings(source_);
    for (auto& [line, setting] : by_line_) settings.set(std::move(setting));
    return settings;
  }

 private:
  Setting setting_of(const toml::node& node, const std::string& path) {
    using Kind = Setting::Kind;
    Setting setting{.path = path, .place = fmt::format("{}:{}", source_, node.source().begin.line)};
    if (const auto* text = node.as_string()) {
      setting.kind = Kind::Text;
      setting.text = text->get();
    } else if (const auto* truth = node.as_boolean()) {
      setting.kind = Kind::Truth;
      setting.text = truth->get() ? "true" : "false";
    } else if (const auto* whole = node.as_integer()) {
      setting.kind = Kind::Number;
      setting.text = fmt::format("{}", whole->get());
    } else if (const auto* real = node.as_floating_point()) {
      setting.kind = Kind::Number;
      setting.text = fmt::format("{}", real->get());
    } else if (const auto* array = node.as_array()) {
      setting.kind = Kind::List;
      for (const toml::node& item : *array) setting.items.push_back(setting_of(item, path));
    } else {
      setting.kind = Kind::Code;
      setting.text = "a table or a date";
    }
    return setting;
  }

  const std::string& source_;
  std::multimap<toml::source_index, Setting> by_line_;
};

}  // namespace

Settings toml_settings(std::string_view text, const std::string& source) {
  const std::string plain = ascii_of_toml(text, source);
  try {
    const toml::table table = toml::parse(plain, source);
    TomlReader reader(source);
    reader.read(table, "");
    return reader.take();
  } catch (const BrokenToml&) {
    throw InputError(source + ": is no TOML");
  } catch (const toml::parse_error& error) {
    throw InputError(
        fmt::format("{}:{}: is no TOML: {}", source, error.source().begin.line, error.description()));
  }
}

}  // namespace pipesim
