#include "topologies/files/topology_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/files/nccl_completion.h"
#include "topologies/files/pci_devices.h"

namespace pipesim {
namespace {

struct TextLine {
  std::int64_t number = 0;
  std::string text;
  std::vector<std::string> words;
};

// Without the escapes by which terminals underline the header.
std::string without_escapes(std::string_view line) {
  std::string text;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] != '\x1b') {
      if (line[at] != '\r') text += line[at];
      continue;
    }
    while (at < line.size() && line[at] != 'm') ++at;
  }
  return text;
}

std::vector<TextLine> lines_of(std::string_view text) {
  std::vector<TextLine> lines;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    TextLine line{number, without_escapes(text.substr(0, end)), {}};
    text.remove_prefix(std::min(text.size(), end + 1));
    std::size_t at = 0;
    while ((at = line.text.find_first_not_of(" \t", at)) != std::string::npos) {
      const std::size_t stop = std::min(line.text.find_first_of(" \t", at), line.text.size());
      line.words.push_back(line.text.substr(at, stop - at));
      at = stop;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::optional<std::int64_t> number_after(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return {};
  word.remove_prefix(prefix.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc() || end != word.data() + word.size() || value < 0) return {};
  return value;
}

bool is_gpu(std::string_view word) { return number_after(word, "GPU").has_value(); }

// What a cell of either program may be.
bool is_cell(std::string_view word) {
  constexpr std::array<std::string_view, 9> cells{"X",   "SYS", "SOC",  "NODE", "PHB",
                                                  "PXB", "PIX", "XGMI", "PCIE"};
  return std::ranges::find(cells, word) != cells.end() || number_after(word, "NV") || number_after(word, "");
}

// A header names devices, the first of them a GPU; a row names one, and has a cell for each of them.
bool is_header(const TextLine& line) {
  return !line.words.empty() && is_gpu(line.words.front()) &&
         (line.words.size() == 1 || !is_cell(line.words[1]));
}
bool is_row(const TextLine& line) {
  return line.words.size() > 1 && is_gpu(line.words.front()) && is_cell(line.words[1]);
}

struct MatrixRow {
  std::string name;
  std::int64_t line = 0;
  std::vector<std::string> cells;
  std::vector<std::string> rest;  // what follows the cells: affinities
};

struct Matrix {
  std::vector<std::string> names;
  std::vector<MatrixRow> rows;  // in the order of names
};

class MatrixReader {
 public:
  MatrixReader(std::string_view text, const std::string& source, const std::optional<DeviceKind>& kind)
      : source_(source), kind_(kind), lines_(lines_of(text)) {}

  NcclDump read() {
    read_names();
    of_amd_ = std::ranges::any_of(lines_, [](const TextLine& line) {
      return line.text.find("Link Type between") != std::string::npos;
    });
    of_amd_ ? read_rocm() : read_nvidia();
    add_guesses();
    dump_.line = 1;
    return std::move(dump_);
  }

 private:
  [[noreturn]] void fail(std::int64_t line, const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", source_, line, what));
  }

  // "GPU 0: NVIDIA H100 80GB HBM3 (UUID: …)", "GPU[0] : Card Series: AMD Instinct MI300X".
  void read_names() {
    for (const TextLine& line : lines_) {
      if (line.words.size() > 2 && line.words[0] == "GPU" && line.words[1].ends_with(":")) {
        const std::size_t colon = line.text.find(line.words[1]) + line.words[1].size() - 1;
        const std::size_t begin = line.text.find_first_not_of(" \t", colon + 1);
        std::string name = line.text.substr(begin, line.text.find("(UUID", begin) - begin);
        name.resize(name.find_last_not_of(" \t") + 1);
        const std::string number = line.words[1].substr(0, line.words[1].size() - 1);
        if (!name.empty()) product_["GPU" + number] = std::move(name);
      }
      const std::size_t series = line.text.find("Card Series:");
      const std::size_t amd = line.text.find("AMD Instinct ");
      if (line.text.starts_with("GPU[") && series != std::string::npos && amd != std::string::npos) {
        const std::size_t close = line.text.find(']');
        std::string name = line.text.substr(amd);
        name.resize(std::min(name.find_last_not_of(" \t") + 1, name.size()));
        product_["GPU" + line.text.substr(4, close - 4)] = std::move(name);
      }
    }
  }

  // The first table after line `from` of lines_, with a row for each name.
  Matrix matrix(std::size_t from) {
    std::size_t at = from;
    while (at < lines_.size() && !is_header(lines_[at])) ++at;
    if (at == lines_.size()) fail(lines_.back().number, "found no table of GPUs after this");
    Matrix result;
    for (const std::string& word : lines_[at].words) {
      if (word == "CPU" || word == "NUMA") break;
      result.names.push_back(word);
    }
    constexpr std::size_t most = 1'000;
    const std::int64_t header = lines_[at].number;
    if (result.names.size() > most)
      fail(header, fmt::format("found {} columns, allowed: up to {}", result.names.size(), most));
    std::set<std::string_view> names;
    for (const std::string& name : result.names) {
      if (!names.insert(name).second)
        fail(header, fmt::format("found a second column of {}, allowed: one of each device", name));
    }
    for (++at; at < lines_.size() && result.rows.size() < result.names.size(); ++at) {
      const TextLine& line = lines_[at];
      if (line.words.empty()) continue;
      const std::string& wanted = result.names[result.rows.size()];
      if (line.words.front() != wanted)
        fail(line.number, fmt::format("found a row of {}, allowed: of {}, as the header of line {} goes on",
                                      line.words.front(), wanted, header));
      if (line.words.size() < 1 + result.names.size())
        fail(line.number, fmt::format("found {} cells of {}, allowed: {}", line.words.size() - 1, wanted,
                                      result.names.size()));
      const auto cells_end = line.words.begin() + 1 + static_cast<std::ptrdiff_t>(result.names.size());
      result.rows.push_back(
          {wanted, line.number, {line.words.begin() + 1, cells_end}, {cells_end, line.words.end()}});
    }
    if (result.rows.size() < result.names.size())
      fail(header, fmt::format("found {} rows below this header, allowed: {}", result.rows.size(),
                               result.names.size()));
    return result;
  }

  NcclPci device(const MatrixRow& row) const {
    NcclPci pci;
    pci.bus_id = row.name;
    pci.line = row.line;
    if (is_gpu(row.name)) {
      NcclGpu& gpu = pci.gpu.emplace();
      gpu.number = number_after(row.name, "GPU");
      gpu.maker = of_amd_ ? kAmdVendor : kNvidiaVendor;
      if (const auto named = product_.find(row.name); named != product_.end()) gpu.name = named->second;
    } else {
      pci.nic = true;
    }
    return pci;
  }

  void read_nvidia() {
    const Matrix table = matrix(0);
    const std::size_t count = table.names.size();
    std::vector<NcclPci> devices;
    for (const MatrixRow& row : table.rows) devices.push_back(device(row));
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < count; ++j) check_cell(table, i, j);
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < i; ++j) check_both_ends(table, j, i);
    }
    add_nvlinks(table, devices);
    // The leaf switch, the way over several switches, and the processor of each.
    std::vector<std::size_t> leaf = groups(table, {"PIX"}), tree = groups(table, {"PIX", "PXB"}),
                             node = groups(table, {"PIX", "PXB", "PHB", "NODE"});
    join_by_numa(table, node);
    place(std::move(devices), leaf, tree, node);
  }

  void check_cell(const Matrix& table, std::size_t i, std::size_t j) const {
    const MatrixRow& row = table.rows[i];
    const std::string& cell = row.cells[j];
    constexpr std::array<std::string_view, 6> ways{"SYS", "SOC", "NODE", "PHB", "PXB", "PIX"};
    const bool of_gpus = is_gpu(row.name) && is_gpu(table.names[j]);
    if (i == j ? cell == "X"
               : std::ranges::find(ways, cell) != ways.end() || (of_gpus && number_after(cell, "NV")))
      return;
    fail_cell(table, i, j,
              i == j    ? "X"
              : of_gpus ? "SYS, SOC, NODE, PHB, PXB, PIX or NV# (the number of NVLinks)"
                        : "SYS, SOC, NODE, PHB, PXB or PIX; NVLinks are between GPUs alone");
  }

  [[noreturn]] void fail_cell(const Matrix& table, std::size_t i, std::size_t j,
                              const std::string& allowed) const {
    fail(table.rows[i].line, fmt::format("found \"{}\" in the row of {} and the column of {}, allowed: {}",
                                         table.rows[i].cells[j], table.names[i], table.names[j], allowed));
  }

  void check_both_ends(const Matrix& table, std::size_t i, std::size_t j) const {
    const MatrixRow& row = table.rows[i];
    const std::string& cell = row.cells[j];
    if (cell != table.rows[j].cells[i])
      fail(row.line, fmt::format("found \"{}\" between {} and {}, which is \"{}\" in line {}", cell, row.name,
                                 table.names[j], table.rows[j].cells[i], table.rows[j].line));
  }

  // Each GPU's group: the lowest index with which it is connected by such cells.
  static std::vector<std::size_t> groups(const Matrix& table, const std::vector<std::string>& cells) {
    std::vector<std::size_t> group(table.names.size());
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = i;
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = 0; j < group.size(); ++j) {
        if (std::ranges::find(cells, table.rows[i].cells[j]) != cells.end()) unite(group, group[i], group[j]);
      }
    }
    return group;
  }
  static void unite(std::vector<std::size_t>& group, std::size_t one, std::size_t other) {
    const auto [to, from] = std::minmax(one, other);
    std::ranges::replace(group, std::size_t(from), std::size_t(to));
  }

  // NVLinks hide how GPUs are connected otherwise: those of one NUMA node are at one processor.
  static void join_by_numa(const Matrix& table, std::vector<std::size_t>& node) {
    std::map<std::string, std::size_t> first;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const std::vector<std::string>& rest = table.rows[i].rest;
      if (rest.size() < 2 || !is_gpu(table.names[i])) continue;
      const auto [at, added] = first.try_emplace(rest[1], i);
      if (!added) unite(node, node[at->second], node[i]);
    }
  }

  [[nodiscard]] const GpuProduct* product(const NcclPci& pci) const { return product_of(pci, kind_); }

  // Where pairs have more NVLinks together than a GPU has, switches are between them.
  void add_nvlinks(const Matrix& table, std::vector<NcclPci>& devices) const {
    constexpr std::int64_t most_of_any = 18;
    std::vector<std::vector<std::pair<std::size_t, std::int64_t>>> links(devices.size());
    bool switches = false;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      std::int64_t sum = 0;
      for (std::size_t j = 0; j < devices.size(); ++j) {
        const auto count = number_after(table.rows[i].cells[j], "NV");
        if (!count || *count == 0) continue;
        if (*count > most_of_any)
          fail(table.rows[i].line, fmt::format("found {} NVLinks between {} and {}, allowed: up to {}",
                                               *count, table.names[i], table.names[j], most_of_any));
        links[i].emplace_back(j, *count);
        sum += *count;
      }
      if (links[i].empty()) continue;
      const GpuProduct* sold = product(devices[i]);
      const bool pair_at_switch = sold != nullptr && sold->wiring == GpuProduct::Wiring::Switch &&
                                  links[i].size() == 1 && links[i].front().second == sold->links;
      switches = switches || pair_at_switch ||
                 sum > (sold != nullptr && sold->links > 0 ? sold->links : most_of_any);
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::int64_t line = table.rows[i].line;
      if (switches && !links[i].empty()) {
        const auto most = std::ranges::max(links[i], {}, &std::pair<std::size_t, std::int64_t>::second);
        devices[i].gpu->nvlinks.push_back({NcclNvlink::To::Switch, "", most.second, line, true});
        continue;
      }
      for (const auto& [j, count] : links[i])
        devices[i].gpu->nvlinks.push_back({NcclNvlink::To::Gpu, table.names[j], count, line});
    }
  }

  // Hangs devices below switches and processors by their groups.
  void place(std::vector<NcclPci> devices, const std::vector<std::size_t>& leaf,
             const std::vector<std::size_t>& tree, const std::vector<std::size_t>& node) {
    std::map<std::size_t, NcclCpu> cpus;
    std::map<std::size_t, std::vector<std::size_t>> members;
    for (std::size_t i = 0; i < devices.size(); ++i) members[tree[i]].push_back(i);
    const auto below = [&](NcclPci& parent, const std::vector<std::size_t>& indices) {
      for (const std::size_t i : indices) parent.below.push_back(std::move(devices[i]));
    };
    for (const auto& [first, all] : members) {
      NcclCpu& cpu = cpus[node[first]];
      if (all.size() == 1) {
        cpu.pci.push_back(std::move(devices[first]));
        continue;
      }
      std::map<std::size_t, std::vector<std::size_t>> leaves;
      for (const std::size_t i : all) leaves[leaf[i]].push_back(i);
      NcclPci bridge = bridge_named(fmt::format("switch{}", bridges_++));
      if (leaves.size() == 1) {
        below(bridge, all);
      } else {
        for (const auto& [head, some] : leaves) {
          if (some.size() == 1) {
            below(bridge, some);
            continue;
          }
          NcclPci inner = bridge_named(fmt::format("switch{}", bridges_++));
          below(inner, some);
          bridge.below.push_back(std::move(inner));
        }
      }
      cpu.pci.push_back(std::move(bridge));
    }
    for (auto& [first, cpu] : cpus) dump_.cpus.push_back(std::move(cpu));
  }

  static NcclPci bridge_named(std::string name) {
    NcclPci pci;
    pci.bus_id = std::move(name);
    return pci;
  }

  [[nodiscard]] std::size_t after(std::string_view title) const {
    const auto at = std::ranges::find_if(
        lines_, [&](const TextLine& line) { return line.text.find(title) != std::string::npos; });
    return at == lines_.end() ? lines_.size() : static_cast<std::size_t>(at - lines_.begin()) + 1;
  }

  void read_rocm() {
    const Matrix types = matrix(after("Link Type between"));
    for (const MatrixRow& row : types.rows) {
      if (!is_gpu(row.name))
        fail(row.line,
             fmt::format("found a row of {}, allowed: of GPU#, since rocm-smi's tables have no other "
                         "devices",
                         row.name));
    }
    const std::size_t hops_at = after("Hops between");
    std::optional<Matrix> hops;
    if (hops_at < lines_.size()) hops = matrix(hops_at);
    if (hops && hops->names != types.names)
      fail(hops->rows.front().line, "found other GPUs in the table of hops than in that of link types");
    std::vector<NcclPci> devices;
    for (const MatrixRow& row : types.rows) devices.push_back(device(row));
    for (std::size_t i = 0; i < devices.size(); ++i) {
      for (std::size_t j = 0; j < devices.size(); ++j) {
        const std::string& type = types.rows[i].cells[j];
        const std::vector<std::string> allowed{"0", "XGMI", "PCIE"};
        if (std::ranges::find(allowed, type) == allowed.end() || (i == j) != (type == "0"))
          fail_cell(types, i, j, i == j ? "0" : "XGMI or PCIE");
        if (type != "XGMI" || (hops && hops->rows[i].cells[j] != "1")) continue;
        devices[i].gpu->nvlinks.push_back({NcclNvlink::To::Gpu, types.names[j], 1, types.rows[i].line});
      }
    }
    std::vector<std::size_t> alone(devices.size()), node(devices.size());
    std::map<std::int64_t, std::size_t> first;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      alone[i] = i;
      node[i] = first.try_emplace(numa_of(types.names[i]), i).first->second;
    }
    dump_.notes.emplace_back("each XGMI of one hop counts as one link: rocm-smi does not tell their number");
    place(std::move(devices), alone, alone, node);
  }

  // "GPU[0] : (Topology) Numa Node: 1"; 0 where nothing tells it.
  [[nodiscard]] std::int64_t numa_of(const std::string& gpu) const {
    const std::string begin = fmt::format("GPU[{}]", gpu.substr(3));
    for (const TextLine& line : lines_) {
      if (!line.text.starts_with(begin) || line.text.find("Numa Node:") == std::string::npos) continue;
      return number_after(line.words.back(), "").value_or(0);
    }
    return 0;
  }

  // PCIe as it came with the kind of GPU; NICs are as fast as that (nccl_completion.h).
  void add_guesses() {
    const std::string speed = speed_of_all();
    for (NcclCpu& cpu : dump_.cpus) {
      for (NcclPci& pci : cpu.pci) guess_below(pci, speed);
    }
    if (!speed.empty())
      dump_.notes.push_back(
          fmt::format("PCIe counts as 16 lanes of {}, as with such GPUs; the text does not tell "
                      "it",
                      speed));
  }

  static void guess_below(NcclPci& pci, const std::string& speed) {
    constexpr std::int64_t lanes = 16;
    pci.link_speed = speed;
    pci.link_width = speed.empty() ? 0 : lanes;
    for (NcclPci& below : pci.below) guess_below(below, speed);
  }

  // "" where no GPU's kind is known.
  [[nodiscard]] std::string speed_of_all() const {
    const GpuProduct* sold = nullptr;
    for (const NcclCpu& cpu : dump_.cpus) {
      for (const NcclPci& pci : cpu.pci) find_product(pci, sold);
    }
    if (sold == nullptr) return "";
    if (sold->vendor == kAmdVendor)
      return sold->kind.starts_with("MI3") ? "32.0 GT/s PCIe" : "16.0 GT/s PCIe";
    constexpr std::int64_t ampere = 80, hopper = 90;
    return sold->compute_capability >= hopper   ? "32.0 GT/s PCIe"
           : sold->compute_capability >= ampere ? "16.0 GT/s PCIe"
                                                : "8.0 GT/s PCIe";
  }
  void find_product(const NcclPci& pci, const GpuProduct*& sold) const {
    if (pci.gpu && sold == nullptr) sold = product(pci);
    for (const NcclPci& below : pci.below) find_product(below, sold);
  }

  const std::string& source_;
  const std::optional<DeviceKind>& kind_;
  std::vector<TextLine> lines_;
  std::map<std::string, std::string> product_;  // by "GPU0"
  NcclDump dump_;
  std::size_t bridges_ = 0;
  bool of_amd_ = false;
};

}  // namespace

bool is_topology_matrix(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] == '<' || text[first] == '{') return false;
  const std::vector<TextLine> lines = lines_of(text);
  return std::ranges::any_of(lines, is_header) && std::ranges::any_of(lines, is_row);
}

NcclDump parse_topology_matrix(std::string_view text, const std::string& source,
                               const std::optional<DeviceKind>& kind) {
  return MatrixReader(text, source, kind).read();
}

}  // namespace pipesim
