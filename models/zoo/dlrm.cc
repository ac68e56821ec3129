#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/graph_builder.h"
#include "models/zoo/families.h"
#include "models/zoo/options.h"

namespace pipesim {

namespace {

constexpr std::int64_t kDense = 13;  // numbers of a sample that are no category

/// Categories of the Criteo Terabyte data, with indices below 40 million, as MLPerf's recommendation
/// benchmark (up to version 2.1) lists them.
constexpr std::array<std::int64_t, 26> kCategories{
    39884406, 39043, 17289, 7420, 20263, 3,  7120,     1543,     63,       38532951, 2953546, 403346, 10,
    2208,     11938, 155,   4,    976,   14, 39979771, 25641295, 39664984, 585935,   12972,   108,    36};

/// The rows of each table.
Sizes rows_of_tables(const ZooValues& values) {
  const std::int64_t tables = values.integer("tables");
  const Sizes given = values.integers("rows");
  if (given.size() > 1) {
    constexpr std::size_t most_tables = 1024;
    if (given.size() > most_tables)
      values.fail("rows has " + std::to_string(given.size()) + " numbers, allowed: one, or up to " +
                  std::to_string(most_tables));
    if (tables != 0 && tables != static_cast<std::int64_t>(given.size()))
      values.fail("tables=" + std::to_string(tables) + ", and rows has " + std::to_string(given.size()) +
                  " numbers, allowed: one, or one for each table");
    return given;
  }
  if (tables != 0) return Sizes(static_cast<std::size_t>(tables), given.front());
  Sizes rows(kCategories.begin(), kCategories.end());
  for (std::int64_t& one : rows) one = std::min(one, given.front());
  return rows;
}

/// A recommendation model (Naumov et al., 2019): products of all pairs of what a sample's categories and its
/// numbers are embedded in.
OperatorGraph dlrm(const ZooValues& values) {
  const std::int64_t batch = values.integer("batch"), width = values.integer("width"),
                     bag = values.integer("bag");
  const Sizes rows = rows_of_tables(values);
  GraphBuilder builder(values.name(), batch, values.data_type());
  const auto layers = [&](const std::string& prefix, TensorId x, const Sizes& widths, bool ends_plain) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool plain = ends_plain && i + 1 == widths.size();
      x = builder.add("linear", prefix + std::to_string(i + 1), {x},
                      {{"out", Sizes{widths[i]}}, {"activation", plain ? "none" : "relu"}});
    }
    return x;
  };
  const TensorId dense = layers("bottom", builder.data("dense", {batch, kDense}), {512, 256, width}, false);
  std::vector<TensorId> vectors{
      builder.add("reshape", "dense_row", {dense}, {{"shape", Sizes{batch, 1, width}}})};
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const std::string name = "table" + std::to_string(t + 1);
    const TensorId indices =
        builder.data("categories" + std::to_string(t + 1), {batch, bag}, DataType::Int64);
    const TensorId row = builder.add("embedding_bag", name, {indices}, {{"rows", rows[t]}, {"width", width}});
    vectors.push_back(builder.add("reshape", name + "_row", {row}, {{"shape", Sizes{batch, 1, width}}}));
  }
  const TensorId all = builder.add("concat", "vectors", vectors, {{"axis", 1}});
  const auto count = static_cast<std::int64_t>(vectors.size());
  TensorId pairs = builder.add("matmul", "products", {all, all}, {{"transpose_q", 1}});
  pairs = builder.add("reshape", "pairs", {pairs}, {{"shape", Sizes{batch, count * count}}});
  // Each pair once: which of the products those are does not change.
  pairs =
      builder.add("gather", "distinct_pairs",
                  {pairs, builder.data("pairs_below_diagonal", {count * (count - 1) / 2}, DataType::Int64)},
                  {{"axis", 1}});
  TensorId x = builder.add("concat", "interaction", {dense, pairs}, {{"axis", 1}});
  x = layers("top", x, {1024, 1024, 512, 256, 1}, true);
  builder.add("binary_cross_entropy", "loss", {x, builder.data("clicked", {batch, 1})});
  return builder.build();
}

}  // namespace

std::vector<ZooModel> dlrm_models() {
  ZooOptions options = {batch_option(65536, "as in MLPerf"),
                        dtype_option(),
                        ZooOption::integer("width", 128, 1, 1 << 12, "of a row of the tables"),
                        ZooOption::integer("bag", 1, 1, 1 << 12,
                                           "categories of a sample in each table, whose rows are added up"),
                        ZooOption::integer("tables", 0, 0, 1 << 10,
                                           "tables, which all have rows as rows says; 0: the 26 of MLPerf"),
                        ZooOption::integers("rows", 40000000, 2, 1 << 30,
                                            "of each table: one number for all, or one for each, as "
                                            "1000+50+7; MLPerf's tables have no more than the number")};
  return {
      {"dlrm",
       "recommendation model of MLPerf: 26 tables of embeddings, their products, and two stacks of layers",
       "Naumov et al., 2019; arXiv:1906.00091, sizes of MLPerf's DLRM", std::move(options), dlrm}};
}

}  // namespace pipesim
