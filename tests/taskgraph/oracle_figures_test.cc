// Figures of a second implementation of the operator algebra (Python, numpy arrays instead of a planner's
// reasoning: it moves real values and checks every sum): kinds, groups and bytes for random splits of three
// small models.
#include <gmock/gmock.h>

#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

using Sizes = std::vector<std::int64_t>;

OperatorGraph mlp() {
  GraphBuilder b("mlp", 8);
  const TensorId x = b.add("linear", "fc1", {b.data("x", {8, 4})}, {{"out", Sizes{8}}, {"bias", 0}});
  b.add("linear", "fc2", {b.add("relu", "act", {x})}, {{"out", Sizes{4}}, {"bias", 0}});
  return b.build();
}

OperatorGraph conv() {
  GraphBuilder b("conv", 4);
  const TensorId x = b.add("conv2d", "c1", {b.data("x", {4, 4, 8, 8})},
                           {{"out", 4}, {"kernel", 3}, {"pad", 1}, {"bias", 0}});
  b.add("conv2d", "c2", {x}, {{"out", 8}, {"kernel", 1}, {"bias", 0}});
  return b.build();
}

OperatorGraph attention() {
  GraphBuilder b("attention", 4);
  const auto linear = [&](const char* name, TensorId x, Sizes out) {
    return b.add("linear", name, {x}, {{"out", std::move(out)}, {"bias", 0}});
  };
  const TensorId x = linear("stem", b.data("x", {4, 8, 4}), {8});
  const TensorId q = linear("q", x, {4, 1, 4}), k = linear("k", x, {4, 4}), v = linear("v", x, {4, 4});
  b.add("attention", "mix", {q, k, v});
  return b.build();
}

struct Figures {
  OperatorGraph (*model)();
  std::map<std::string, Split> splits;
  std::vector<std::string> traffic;
};

std::vector<Figures> figures() {
  return {{mlp,
           {{"fc1", {{{"i", 4}}, {5, 2, 3, 1}}},
            {"act", {{{"h", 4}}, {5, 2, 3, 1}}},
            {"fc2", {{{"b", 4}}, {5, 2, 3, 1}}}},
           {"backward act: all-to-all 1,2,3,5 of 192 B", "backward fc1: all-gather 1,2,3,5 of 768 B",
            "forward act: all-to-all 1,2,3,5 of 192 B", "forward fc1: reduce-scatter 1,2,3,5 of 768 B",
            "sync fc2.w: all-reduce 1,2,3,5 of 768 B"}},
          {mlp,
           {{"fc1", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"act", {{{"h", 4}}, {0, 1, 2, 3}}},
            {"fc2", {{{"o", 2}}, {0, 1, 2, 3}, 2}}},
           {"backward act: reduce-scatter 0,1 of 128 B", "backward act: reduce-scatter 2,3 of 128 B",
            "backward fc1: all-to-all 0,1,2,3 of 192 B", "forward act: all-gather 0,1,2,3 of 768 B",
            "forward fc1: all-to-all 0,1,2,3 of 192 B", "sync fc1.w: all-reduce 0,1,2,3 of 768 B"}},
          {mlp,
           {{"fc1", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"act", {{{"h", 4}}, {0, 1, 2, 3}}},
            {"fc2", {{{"o", 2}, {"i", 2}}, {0, 1, 2, 3}}}},
           {"backward act: reduce-scatter 0,1 of 128 B", "backward act: reduce-scatter 2,3 of 128 B",
            "backward fc1: all-to-all 0,1,2,3 of 192 B", "forward act: all-gather 0,1 of 128 B",
            "forward act: all-gather 2,3 of 128 B", "forward fc1: all-to-all 0,1,2,3 of 192 B",
            "sync fc1.w: all-reduce 0,1,2,3 of 768 B"}},
          {mlp,
           {{"fc1", {{{"b", 2}, {"i", 2}}, {0, 1, 2, 3}}},
            {"act", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"fc2", {{{"i", 4}}, {0, 1, 2, 3}}}},
           {"backward act: all-to-all 0,1,2,3 of 192 B", "backward fc1: all-gather 0,1 of 128 B",
            "backward fc1: all-gather 2,3 of 128 B", "forward act: all-to-all 0,1,2,3 of 192 B",
            "forward fc1: reduce-scatter 0,1 of 128 B", "forward fc1: reduce-scatter 2,3 of 128 B",
            "sync fc1.w: all-reduce 0,2 of 128 B", "sync fc1.w: all-reduce 1,3 of 128 B"}},
          {mlp,
           {{"fc1", {{{"o", 2}, {"i", 2}}, {0, 7, 6, 2}}},
            {"act", {{{"h", 2}, {"b", 2}}, {0, 7, 6, 2}}},
            {"fc2", {{{"b", 4}}, {0, 7, 6, 2}}}},
           {"backward act: all-to-all 0,7 of 64 B", "backward act: all-to-all 2,6 of 64 B",
            "backward fc1: all-gather 0,6 of 128 B", "backward fc1: all-gather 2,7 of 128 B",
            "forward act: all-to-all 0,7 of 64 B", "forward act: all-to-all 2,6 of 64 B",
            "forward fc1: reduce-scatter 0,6 of 128 B", "forward fc1: reduce-scatter 2,7 of 128 B",
            "sync fc2.w: all-reduce 0,2,6,7 of 768 B"}},
          {mlp,
           {{"fc1", {{{"b", 2}}, {0, 1, 2, 3}, 2}},
            {"act", {{{"h", 2}}, {0, 1, 2, 3}, 2}},
            {"fc2", {{{"o", 2}}, {0, 1, 2, 3}, 2}}},
           {"backward act: reduce-scatter 0,1 of 256 B", "backward act: reduce-scatter 2,3 of 256 B",
            "backward fc1: all-to-all 0,1 of 128 B", "backward fc1: all-to-all 2,3 of 128 B",
            "forward act: all-gather 0,1 of 256 B", "forward act: all-gather 2,3 of 256 B",
            "forward fc1: all-to-all 0,1 of 128 B", "forward fc1: all-to-all 2,3 of 128 B",
            "sync fc1.w: all-reduce 0,1 of 256 B", "sync fc1.w: all-reduce 2,3 of 256 B"}},
          {mlp,
           {{"fc1", {{{"i", 2}, {"b", 2}}, {0, 1, 2, 3}}},
            {"act", {{{"b", 2}, {"h", 2}}, {0, 1, 2, 3}}},
            {"fc2", {{{"b", 4}}, {0, 1, 2, 3}}}},
           {"backward act: all-to-all 0,1 of 64 B", "backward act: all-to-all 2,3 of 64 B",
            "backward fc1: all-gather 0,1 of 128 B", "backward fc1: all-gather 2,3 of 128 B",
            "forward act: all-to-all 0,1 of 64 B", "forward act: all-to-all 2,3 of 64 B",
            "forward fc1: reduce-scatter 0,1 of 128 B", "forward fc1: reduce-scatter 2,3 of 128 B",
            "sync fc1.w: all-reduce 0,2 of 128 B", "sync fc1.w: all-reduce 1,3 of 128 B",
            "sync fc2.w: all-reduce 0,1,2,3 of 768 B"}},
          {mlp,
           {{"fc1", {{{"o", 2}, {"b", 2}}, {0, 7, 6, 4}}},
            {"act", {{{"b", 4}}, {0, 7, 6, 4}}},
            {"fc2", {{{"o", 2}, {"b", 2}}, {0, 7, 6, 4}}}},
           {"backward act: reduce-scatter 0,7 of 128 B", "backward act: reduce-scatter 4,6 of 128 B",
            "backward fc1: all-to-all 0,7 of 64 B", "backward fc1: all-to-all 4,6 of 64 B",
            "forward act: all-gather 0,7 of 128 B", "forward act: all-gather 4,6 of 128 B",
            "forward fc1: all-to-all 0,7 of 64 B", "forward fc1: all-to-all 4,6 of 64 B",
            "sync fc1.w: all-reduce 0,6 of 128 B", "sync fc1.w: all-reduce 4,7 of 128 B",
            "sync fc2.w: all-reduce 0,6 of 128 B", "sync fc2.w: all-reduce 4,7 of 128 B"}},
          {conv,
           {{"c1", {{{"n", 4}}, {6, 4, 7, 5}}}, {"c2", {{{"o", 4}}, {6, 4, 7, 5}}}},
           {"backward c1: reduce-scatter 4,5,6,7 of 12288 B", "forward c1: all-gather 4,5,6,7 of 12288 B",
            "sync c1.w: all-reduce 4,5,6,7 of 3456 B"}},
          {conv,
           {{"c1", {{{"n", 4}}, {0, 5, 1, 7}}}, {"c2", {{{"o", 2}}, {0, 5, 1, 7}, 2}}},
           {"backward c1: reduce-scatter 0,5 of 2048 B", "backward c1: reduce-scatter 1,7 of 2048 B",
            "forward c1: all-gather 0,1,5,7 of 12288 B", "sync c1.w: all-reduce 0,1,5,7 of 3456 B"}},
          {conv,
           {{"c1", {{{"w", 2}}, {0, 1, 2, 3}, 2}}, {"c2", {{{"o", 2}}, {0, 1, 2, 3}, 2}}},
           {"backward c1: reduce-scatter 0,1 of 4096 B", "backward c1: reduce-scatter 2,3 of 4096 B",
            "forward c1: all-gather 0,1 of 4096 B", "forward c1: all-gather 2,3 of 4096 B",
            "sync c1.w: all-reduce 0,1 of 1152 B", "sync c1.w: all-reduce 2,3 of 1152 B"}},
          {conv,
           {{"c1", {{{"w", 2}, {"i", 2}}, {0, 1, 2, 3}}}, {"c2", {{{"w", 2}, {"n", 2}}, {0, 1, 2, 3}}}},
           {"backward c1: all-gather 0,2 of 2048 B", "backward c1: all-gather 1,3 of 2048 B",
            "forward c1: reduce-scatter 0,2 of 2048 B", "forward c1: reduce-scatter 1,3 of 2048 B",
            "sync c1.w: all-reduce 0,1 of 576 B", "sync c1.w: all-reduce 2,3 of 576 B",
            "sync c2.w: all-reduce 0,1,2,3 of 768 B"}},
          {conv,
           {{"c1", {{{"n", 2}, {"i", 2}}, {0, 1, 2, 3}}}, {"c2", {{{"i", 2}, {"n", 2}}, {0, 1, 2, 3}}}},
           {"backward c1: all-gather 0,1 of 2048 B", "backward c1: all-gather 2,3 of 2048 B",
            "forward c1: reduce-scatter 0,1 of 2048 B", "forward c1: reduce-scatter 2,3 of 2048 B",
            "sync c1.w: all-reduce 0,2 of 576 B", "sync c1.w: all-reduce 1,3 of 576 B",
            "sync c2.w: all-reduce 0,2 of 128 B", "sync c2.w: all-reduce 1,3 of 128 B"}},
          {conv,
           {{"c1", {{{"h", 4}}, {6, 0, 5, 3}}}, {"c2", {{{"i", 4}}, {6, 0, 5, 3}}}},
           {"backward c1: all-to-all 0,3,5,6 of 3072 B", "forward c1: all-to-all 0,3,5,6 of 3072 B",
            "sync c1.w: all-reduce 0,3,5,6 of 3456 B"}},
          {attention,
           {{"stem", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"q", {{{"o3", 4}}, {0, 1, 2, 3}}},
            {"k", {{{"o2", 4}}, {0, 1, 2, 3}}},
            {"v", {{{"o2", 4}}, {0, 1, 2, 3}}},
            {"mix", {{{"t", 4}}, {0, 1, 2, 3}}}},
           {"backward k: all-to-all 0,1,2,3 of 1536 B", "backward mix inside: all-reduce 0,1,2,3 of 3072 B",
            "backward q: reduce-scatter 0,1,2,3 of 6144 B", "backward stem: reduce-scatter 0,1,2,3 of 3072 B",
            "backward v: all-to-all 0,1,2,3 of 1536 B", "forward k: all-to-all 0,1,2,3 of 1536 B",
            "forward mix inside: all-reduce 0,1,2,3 of 3072 B",
            "forward mix inside: all-reduce 0,1,2,3 of 3072 B", "forward q: all-gather 0,1,2,3 of 6144 B",
            "forward stem: all-gather 0,1,2,3 of 3072 B", "forward v: all-to-all 0,1,2,3 of 1536 B",
            "sync stem.w: all-reduce 0,1,2,3 of 768 B"}},
          {attention,
           {{"stem", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"q", {{{"o3", 4}}, {0, 1, 2, 3}}},
            {"k", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"v", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"mix", {{{"t", 4}}, {0, 1, 2, 3}}}},
           {"backward k: all-to-all 0,1,2,3 of 1536 B", "backward mix inside: all-reduce 0,1,2,3 of 3072 B",
            "backward q: reduce-scatter 0,1,2,3 of 6144 B", "backward stem: reduce-scatter 0,1,2,3 of 3072 B",
            "backward v: all-to-all 0,1,2,3 of 1536 B", "forward k: all-to-all 0,1,2,3 of 1536 B",
            "forward mix inside: all-reduce 0,1,2,3 of 3072 B",
            "forward mix inside: all-reduce 0,1,2,3 of 3072 B", "forward q: all-gather 0,1,2,3 of 6144 B",
            "forward stem: all-gather 0,1,2,3 of 3072 B", "forward v: all-to-all 0,1,2,3 of 1536 B",
            "sync k.w: all-reduce 0,1,2,3 of 3072 B", "sync stem.w: all-reduce 0,1,2,3 of 768 B",
            "sync v.w: all-reduce 0,1,2,3 of 3072 B"}},
          {attention,
           {{"stem", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"q", {{{"o3", 4}}, {0, 1, 2, 3}}},
            {"k", {{{"o", 4}}, {0, 1, 2, 3}}},
            {"v", {{{"o", 4}}, {0, 1, 2, 3}}},
            {"mix", {{{"g", 4}}, {0, 1, 2, 3}}}},
           {"backward q: all-to-all 0,1,2,3 of 1536 B", "backward stem: reduce-scatter 0,1,2,3 of 3072 B",
            "forward q: all-to-all 0,1,2,3 of 1536 B", "forward stem: all-gather 0,1,2,3 of 3072 B",
            "sync stem.w: all-reduce 0,1,2,3 of 768 B"}},
          {attention,
           {{"stem", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"q", {{{"o", 4}}, {0, 1, 2, 3}}},
            {"k", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"v", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"mix", {{{"b", 4}}, {0, 1, 2, 3}}}},
           {"backward q: all-to-all 0,1,2,3 of 1536 B", "backward stem: reduce-scatter 0,1,2,3 of 3072 B",
            "forward q: all-to-all 0,1,2,3 of 1536 B", "forward stem: all-gather 0,1,2,3 of 3072 B",
            "sync k.w: all-reduce 0,1,2,3 of 3072 B", "sync stem.w: all-reduce 0,1,2,3 of 768 B",
            "sync v.w: all-reduce 0,1,2,3 of 3072 B"}},
          {attention,
           {{"stem", {{{"b", 4}}, {3, 7, 1, 4}}},
            {"q", {{{"b", 4}}, {3, 7, 1, 4}}},
            {"k", {{{"o2", 4}}, {3, 7, 1, 4}}},
            {"v", {{{"o", 4}}, {3, 7, 1, 4}}},
            {"mix", {{{"b", 4}}, {3, 7, 1, 4}}}},
           {"backward k: all-to-all 1,3,4,7 of 1536 B", "backward stem: reduce-scatter 1,3,4,7 of 3072 B",
            "backward v: all-to-all 1,3,4,7 of 1536 B", "forward k: all-to-all 1,3,4,7 of 1536 B",
            "forward stem: all-gather 1,3,4,7 of 3072 B", "forward v: all-to-all 1,3,4,7 of 1536 B",
            "sync q.w: all-reduce 1,3,4,7 of 3072 B", "sync stem.w: all-reduce 1,3,4,7 of 768 B"}},
          {attention,
           {{"stem", {{{"b", 4}}, {0, 1, 2, 3}}},
            {"q", {{{"o3", 4}}, {0, 1, 2, 3}}},
            {"k", {{{"o2", 4}}, {0, 1, 2, 3}}},
            {"v", {{{"o", 4}}, {0, 1, 2, 3}}},
            {"mix", {{{"b", 4}}, {0, 1, 2, 3}}}},
           {"backward k: all-to-all 0,1,2,3 of 1536 B", "backward q: all-to-all 0,1,2,3 of 1536 B",
            "backward stem: reduce-scatter 0,1,2,3 of 3072 B", "backward v: all-to-all 0,1,2,3 of 1536 B",
            "forward k: all-to-all 0,1,2,3 of 1536 B", "forward q: all-to-all 0,1,2,3 of 1536 B",
            "forward stem: all-gather 0,1,2,3 of 3072 B", "forward v: all-to-all 0,1,2,3 of 1536 B",
            "sync stem.w: all-reduce 0,1,2,3 of 768 B"}},
          {attention,
           {{"stem", {{{"s", 4}}, {7, 4, 6, 2}}},
            {"q", {{{"o", 4}}, {7, 4, 6, 2}}},
            {"k", {{{"o", 4}}, {7, 4, 6, 2}}},
            {"v", {{{"s", 4}}, {7, 4, 6, 2}}},
            {"mix", {{{"e", 4}}, {7, 4, 6, 2}}}},
           {"backward k: reduce-scatter 2,4,6,7 of 6144 B", "backward q: reduce-scatter 2,4,6,7 of 6144 B",
            "backward stem: reduce-scatter 2,4,6,7 of 3072 B", "backward v: all-to-all 2,4,6,7 of 1536 B",
            "forward k: all-gather 2,4,6,7 of 6144 B", "forward q: all-gather 2,4,6,7 of 6144 B",
            "forward stem: all-gather 2,4,6,7 of 3072 B", "forward v: all-to-all 2,4,6,7 of 1536 B",
            "sync stem.w: all-reduce 2,4,6,7 of 768 B", "sync v.w: all-reduce 2,4,6,7 of 3072 B"}}};
}

TEST(OracleFigures, AreWhatTheTaskGraphCommunicates) {
  for (const Figures& f : figures()) {
    const Expansion e(f.model(), "levels:8@10GB/s", f.splits);
    std::string configs;
    for (std::size_t i = 0; i < e.strategy.size(); ++i)
      configs +=
          fmt::format("{}: {}; ", e.graph.operators()[i].name, e.strategy[i].str(e.graph.operators()[i]));
    EXPECT_THAT(e.traffic(), testing::UnorderedElementsAreArray(f.traffic)) << configs;
  }
}

}  // namespace
}  // namespace pipesim
