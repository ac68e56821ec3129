#include "topologies/files/link_entries.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace pipesim {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// Names in which one number is replaced by `sign`.
std::vector<std::string> with_sign(const std::string& name, char sign) {
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    if (!digit(name[begin])) continue;
    std::size_t end = begin;
    while (end < name.size() && digit(name[end])) ++end;
    texts.push_back(name.substr(0, begin) + sign + name.substr(end));
    begin = end;
  }
  return texts;
}

std::string numbered_name(std::string text, std::size_t number) {
  const std::string digits = std::to_string(number);
  for (std::size_t at = 0; (at = text.find('#', at)) != std::string::npos; at += digits.size())
    text.replace(at, 1, digits);
  return text;
}

// Writes links in as few entries as patterns and repetition allow, in their order.
class Folder {
 public:
  // `order`: the vertices that patterns see, as a reader adds them; `name`: what links call any vertex.
  Folder(std::vector<std::int32_t> order, std::map<std::int32_t, std::string> name)
      : order_(std::move(order)), name_(std::move(name)) {}

  std::vector<LinkEntry> fold(std::span<const Link> links) {
    std::vector<LinkEntry> list;
    while (!links.empty()) {
      Entry best{plain(name(links[0].a), name(links[0].b), links[0]), 1};
      for (Entry entry : {pattern(links), repetition(links)}) {
        if (entry.links > best.links) best = std::move(entry);
      }
      list.push_back(std::move(best.entry));
      links = links.subspan(best.links);
    }
    return list;
  }

 private:
  struct Entry {
    LinkEntry entry;
    std::size_t links = 0;  // that it stands for
  };

  static LinkEntry plain(std::string a, std::string b, const Link& cable) {
    return {std::move(a), std::move(b), cable, 0, {}};
  }

  [[nodiscard]] const std::string& name(std::int32_t vertex) const { return name_.at(vertex); }

  // Each list of vertices is made once; where there are many of many vertices, patterns are left out.
  const std::vector<std::int32_t>& matching(const std::string& text) {
    const auto [it, added] = lists_.try_emplace(text);
    if (!added || text.find('*') == std::string::npos || looked_at_ > kMostLookedAt) return it->second;
    looked_at_ += order_.size();
    const std::size_t star = text.find('*');
    const std::string_view before = std::string_view(text).substr(0, star),
                           after = std::string_view(text).substr(star + 1);
    for (const std::int32_t v : order_) {
      const std::string_view other = name(v);
      if (other.size() > before.size() + after.size() && other.starts_with(before) &&
          other.ends_with(after) &&
          std::ranges::all_of(other.substr(before.size(), other.size() - before.size() - after.size()),
                              digit))
        it->second.push_back(v);
    }
    return it->second;
  }

  std::vector<std::string> patterns_of(std::int32_t vertex) const {
    std::vector<std::string> texts{name(vertex)};
    for (std::string& text : with_sign(name(vertex), '*')) texts.push_back(std::move(text));
    return texts;
  }

  std::size_t matched(std::span<const Link> links, const std::string& a, const std::string& b) {
    const bool same = a == b;
    const auto list = [&](const std::string& text, std::int32_t vertex) {
      return text.find('*') == std::string::npos ? std::vector<std::int32_t>{vertex} : matching(text);
    };
    const std::vector<std::int32_t> first = list(a, links[0].a), second = list(b, links[0].b);
    std::size_t count = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      for (std::size_t j = same ? i + 1 : 0; j < second.size(); ++j) {
        if (count == links.size() || links[count].a != first[i] || links[count].b != second[j] ||
            !same_cable(links[count], links[0]))
          return 0;
        ++count;
      }
    }
    return count;
  }

  Entry pattern(std::span<const Link> links) {
    Entry best;
    for (const std::string& a : patterns_of(links[0].a)) {
      for (const std::string& b : patterns_of(links[0].b)) {
        if (const std::size_t count = matched(links, a, b); count > best.links && count > 1)
          best = {plain(a, b, links[0]), count};
      }
    }
    return best;
  }

  // The text with '#' that is `zero` for 0 and `one` for 1.
  static std::optional<std::string> template_of(const std::string& zero, const std::string& one) {
    if (zero.find('#') != std::string::npos) return std::nullopt;
    if (zero == one) return zero;
    for (const std::string& text : with_sign(zero, '#')) {
      if (numbered_name(text, 0) == zero && numbered_name(text, 1) == one) return text;
    }
    return std::nullopt;
  }

  Entry repetition(std::span<const Link> links) const {
    constexpr std::size_t kLongestPeriod = 8;
    Entry best;
    for (std::size_t period = 2; period <= kLongestPeriod && 2 * period <= links.size(); ++period) {
      std::vector<std::pair<std::string, std::string>> ends;
      for (std::size_t i = 0; i < period; ++i) {
        const auto a = template_of(name(links[i].a), name(links[period + i].a));
        const auto b = template_of(name(links[i].b), name(links[period + i].b));
        if (!a || !b) break;
        ends.emplace_back(*a, *b);
      }
      if (ends.size() != period) continue;
      std::size_t count = 0;
      while (repeats(links, ends, count)) ++count;
      if (count < 2 || count * period <= best.links) continue;
      LinkEntry repeated;
      repeated.count = static_cast<std::int64_t>(count);
      for (std::size_t i = 0; i < period; ++i)
        repeated.links.push_back(plain(ends[i].first, ends[i].second, links[i]));
      best = {std::move(repeated), count * period};
    }
    return best;
  }

  bool repeats(std::span<const Link> links, const std::vector<std::pair<std::string, std::string>>& ends,
               std::size_t number) const {
    if ((number + 1) * ends.size() > links.size()) return false;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Link& link = links[number * ends.size() + i];
      if (numbered_name(ends[i].first, number) != name(link.a) ||
          numbered_name(ends[i].second, number) != name(link.b) || !same_cable(link, links[i]))
        return false;
    }
    return true;
  }

  static constexpr std::size_t kMostLookedAt = 20'000'000;
  std::vector<std::int32_t> order_;
  std::map<std::int32_t, std::string> name_;
  std::map<std::string, std::vector<std::int32_t>> lists_;
  std::size_t looked_at_ = 0;
};

}  // namespace

bool same_cable(const Link& a, const Link& b) {
  return a.bandwidth == b.bandwidth && a.latency == b.latency && a.duplex == b.duplex;
}

std::vector<LinkEntry> folded_links(std::span<const Link> links, std::vector<std::int32_t> order,
                                    std::map<std::int32_t, std::string> name) {
  return Folder(std::move(order), std::move(name)).fold(links);
}

}  // namespace pipesim
