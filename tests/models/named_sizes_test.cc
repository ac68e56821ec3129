#include "models/named_sizes.h"

#include <gmock/gmock.h>

#include "models/model_json.h"
#include "models/zoo/zoo.h"
#include "tests/models/samples.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

std::string small_file(const std::string& sizes, const std::string& batch, const std::string& shape,
                       const std::string& out) {
  return fmt::format(
      R"({{"pipesim_model": 1, "name": "m", {}"batch": {}, "inputs": [{{"name": "x", "shape": {}}}],
    "operators": [{{"name": "fc", "kind": "linear", "inputs": ["x"], "out": {}}}]}})",
      sizes.empty() ? "" : "\"sizes\": " + sizes + ", ", batch, shape, out);
}

std::string refused_sizes(const std::string& text, const std::vector<NamedSize>& bound = {}) {
  return refusal([&] { parse_model(text, "m.json", bound); });
}

const std::string with_two_sizes = small_file(R"({"b": 64, "h": 10})", R"("b")", R"(["b", "h"])", R"("4*h")");

TEST(NamedSizes, StandForNumbers) {
  const OperatorGraph graph = parse_model(with_two_sizes, "m.json");
  EXPECT_EQ(graph, parse_model(small_file("", "64", "[64, 10]", "40"), "m.json"));
  EXPECT_EQ(graph.name(), "m");
}

TEST(NamedSizes, AreBoundToOtherNumbers) {
  const OperatorGraph graph = parse_model(with_two_sizes, "m.json", {{"h", 6}, {"b", 32}});
  EXPECT_EQ(graph.fingerprint(), parse_model(small_file("", "32", "[32, 6]", "24"), "m.json").fingerprint());
  EXPECT_EQ(graph.name(), "m:b=32,h=6") << "in the file's order";
  EXPECT_EQ(parse_model(with_two_sizes, "m.json", {{"b", 64}}), parse_model(with_two_sizes, "m.json"))
      << "bound to what it is anyway";
}

TEST(NamedSizes, MaySayOthersAboveThem) {
  const std::string text =
      small_file(R"({"b": 64, "h": 10, "ffn": "4*h"})", R"("b")", R"(["b", "h"])", R"("ffn")");
  EXPECT_EQ(parse_model(text, "m.json", {{"h", 3}}).operators()[0].factors[2].size, 12);
  EXPECT_EQ(parse_model(text, "m.json", {{"h", 3}, {"ffn", 5}}).operators()[0].factors[2].size, 5);
  const std::string sorted =
      small_file(R"({"b": 64, "ffn": "4*h", "h": 10})", R"("b")", R"(["b", "h"])", R"("ffn")");
  EXPECT_EQ(parse_model(sorted, "m.json"), parse_model(text, "m.json")) << "a program has sorted the keys";
  EXPECT_EQ(parse_model(sorted, "m.json", {{"h", 3}, {"ffn", 5}}).name(), "m:ffn=5,h=3");
  EXPECT_EQ(refused_sizes(small_file(R"({"b": 2, "ffn": "4*h", "h": "ffn"})", "64", "[64, 8]", "5")),
            "m.json: /sizes/ffn: found \"4*h\": unknown size \"h\"; there are b");
}

TEST(NamedSizes, AreReadFromAFileAlone) {
  const TemporaryFolder folder;
  const ModelFileSizes named = load_model_sizes(folder.file("two.json", with_two_sizes));
  EXPECT_EQ(named.sizes, (std::vector<NamedSize>{{"b", 64}, {"h", 10}}));
  EXPECT_EQ(named.batch, "b");
  EXPECT_EQ(named.samples, 64);
  const ModelFileSizes plain =
      load_model_sizes(folder.file("plain.json", small_file("", "8", "[8, 2]", "3")));
  EXPECT_EQ(plain.sizes, std::vector<NamedSize>());
  EXPECT_EQ(plain.batch, "");
  EXPECT_EQ(plain.samples, 8);
}

TEST(NamedSizes, RefuseWhatTheyAreNot) {
  const std::string sizes = R"({"b": 64, "heads": 4})";
  const auto with_out = [&](const std::string& out) {
    return refused_sizes(small_file(sizes, R"("b")", R"(["b", 8])", out));
  };
  EXPECT_EQ(
      with_out(R"("head")"),
      "m.json: /operators/0/out: found \"head\": unknown size \"head\" (did you mean \"heads\"?); there "
      "are b, heads");
  EXPECT_EQ(with_out(R"("5")"), "m.json: /operators/0/out: found \"5\", a number is written without quotes");
  EXPECT_EQ(with_out(R"("b+1")"),
            "m.json: /operators/0/out: found \"b+1\", allowed: numbers from 1 to 2147483647 and names of "
            "\"sizes\", with * and / between them");
  EXPECT_EQ(with_out(R"("")"),
            "m.json: /operators/0/out: found \"\", allowed: numbers from 1 to 2147483647 and names of "
            "\"sizes\", with * and / between them");
  EXPECT_EQ(with_out(R"(["heads", "b*"])"),
            "m.json: /operators/0/out/1: found \"b*\", allowed: numbers from 1 to 2147483647 and names of "
            "\"sizes\", with * and / between them");
  EXPECT_EQ(with_out(R"("b/3")"), "m.json: /operators/0/out: found \"b/3\": 64 is no multiple of 3");
  EXPECT_EQ(with_out(R"("2*heads/b")"),
            "m.json: /operators/0/out: found \"2*heads/b\": 8 is no multiple of b, which is 64");
  EXPECT_EQ(with_out(R"("2147483647*b")"),
            "m.json: /operators/0/out: found \"2147483647*b\", which is 137438953408; an integer from 1 to "
            "2147483647 is needed");
  EXPECT_EQ(with_out(R"("2147483647*2147483647*2147483647*b")"),
            "m.json: /operators/0/out: found \"2147483647*2147483647*2147483647*b\", which is too large");
  EXPECT_EQ(refused_sizes(small_file(R"({"4x": 64})", "64", "[64, 8]", "5")),
            "m.json: /sizes/4x: found the name \"4x\", allowed: letters, digits and _, a letter or _ first");
  EXPECT_EQ(refused_sizes(small_file(R"({"b": 0})", R"("b")", R"(["b", 8])", "5")),
            "m.json: /sizes/b: found 0, an integer from 1 to 2147483647 is needed");
  EXPECT_EQ(refused_sizes(small_file(sizes, R"("bb")", R"(["b", 8])", "5")),
            "m.json: /batch: found \"bb\", a number or a name of \"sizes\" is needed; "
            "there are b, heads");
  EXPECT_EQ(refused_sizes(small_file(sizes, R"("2*b")", R"(["b", 8])", "5")),
            "m.json: /batch: found \"2*b\", a number or a name of \"sizes\" is needed; there are b, heads");
}

TEST(NamedSizes, RefuseBindingsOfOthers) {
  EXPECT_EQ(refused_sizes(with_two_sizes, {{"n", 3}}), "m.json: unknown size \"n\"; it has b=64, h=10");
  EXPECT_EQ(refused_sizes(small_file(R"({"hidden": 64})", "64", "[64, 8]", "\"hidden\""), {{"hiden", 3}}),
            "m.json: unknown size \"hiden\" (did you mean \"hidden\"?); it has hidden=64");
  EXPECT_EQ(refused_sizes(small_file("", "64", "[64, 8]", "5"), {{"b", 3}}),
            "m.json: no size \"b\": the file names no sizes; \"sizes\": {\"b\": 3} names one");
  EXPECT_EQ(refused_sizes(with_two_sizes, {{"b", 0}}), "m.json: size \"b\" is 0, allowed: 1 to 2147483647");
}

TEST(NamedSizes, AreWrittenForTheBatch) {
  const auto model = [](std::int64_t batch) {
    GraphBuilder builder(fmt::format("m{}", batch), batch);
    const TensorId data = builder.data("x", {batch, 6}),
                   flat = builder.add("reshape", "flat", {data}, {{"shape", Sizes{6 * batch}}});
    builder.add("reshape", "back", {flat}, {{"shape", Sizes{batch, 3, 2}}});
    return builder.build();
  };
  EXPECT_EQ(to_json_with_batch(model(6), model(12)), R"({
  "pipesim_model": 1,
  "name": "m6",
  "sizes": {"b": 6},
  "batch": "b",
  "dtype": "float32",
  "inputs": [
    {"name":"x","shape":["b",6]}
  ],
  "operators": [
    {"name":"flat","kind":"reshape","inputs":["x"],"shape":["6*b"]},
    {"name":"back","kind":"reshape","inputs":["flat"],"shape":["b",3,2]}
  ]
}
)");
  const auto square = [](std::int64_t batch) {
    GraphBuilder builder("square", batch);
    builder.data("x", {batch, batch * batch});
    return builder.build();
  };
  EXPECT_EQ(to_json_with_batch(square(6), square(12)), to_json(square(6)))
      << "it does not grow in proportion";
}

TEST(NamedSizes, AreWrittenForTheBatchOfTheZoo) {
  for (const char* name : {"lenet", "mlp", "rnnlm:steps=2", "nmt:steps=2", "gpt:layers=1", "t5-base:layers=1",
                           "bert-base:layers=1", "resnet50"}) {
    const std::string text =
        std::string(name) + (std::string_view(name).find(':') == std::string_view::npos ? ":" : ",");
    const OperatorGraph six = make_zoo_model(text + "batch=6"), ten = make_zoo_model(text + "batch=10");
    const std::string file = to_json_with_batch(six, make_zoo_model(text + "batch=12"));
    EXPECT_NE(file, to_json(six)) << name;
    EXPECT_EQ(parse_model(file, name), six) << name;
    EXPECT_EQ(parse_model(file, name, {{"b", 10}}).fingerprint(), ten.fingerprint()) << name;
  }
}

// A file with names is the file with numbers in their places.
TEST(NamedSizes, AreWhatTheNumbersAre) {
  constexpr const char* pattern = R"({{"pipesim_model": 1, "name": "m", {0}"batch": {1}, "inputs": [
      {{"name": "x", "shape": [{1}, {2}, {3}]}}, {{"name": "labels", "shape": [{1}, {2}], "dtype": "int64"}}],
    "operators": [
      {{"name": "up", "kind": "linear", "inputs": ["x"], "out": {4}}},
      {{"name": "down", "kind": "linear", "inputs": ["up"], "out": [{5}, {6}]}},
      {{"name": "flat", "kind": "reshape", "inputs": ["down"], "shape": [{1}, {2}, {3}]}},
      {{"name": "loss", "kind": "cross_entropy", "inputs": ["flat", "labels"]}}]}})";
  Rng rng = test_rng(19);
  for (int i = 0; i < 100; ++i) {
    const auto draw = [&] { return static_cast<std::int64_t>(1 + rng.below(9)); };
    const std::int64_t b = draw(), s = draw(), heads = draw(), width = draw(), h = heads * width;
    const std::string named =
        fmt::format(fmt::runtime(pattern), R"("sizes": {"b": 7, "s": 7, "heads": 7, "h": 49}, )", "\"b\"",
                    "\"s\"", "\"h\"", "\"4*h\"", "\"heads\"", "\"h / heads\"");
    const std::string numbers = fmt::format(fmt::runtime(pattern), "", b, s, h, 4 * h, heads, width);
    const OperatorGraph graph =
        parse_model(named, "m.json", {{"b", b}, {"s", s}, {"heads", heads}, {"h", h}});
    const OperatorGraph wanted = parse_model(numbers, "m.json");
    EXPECT_EQ(graph.fingerprint(), wanted.fingerprint());
    ASSERT_EQ(graph.operators().size(), wanted.operators().size());
    for (std::size_t op = 0; op < wanted.operators().size(); ++op)
      EXPECT_EQ(graph.operators()[op], wanted.operators()[op]);
    EXPECT_EQ(graph.batch(), b);
    EXPECT_EQ(parse_model(to_json(graph), "again"), graph);
  }
}

}  // namespace
}  // namespace pipesim
