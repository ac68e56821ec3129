#include "tools/cli/base/arguments.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

const std::vector<Option> kOptions = {
    {.name = "budget", .argument = "TIME", .default_value = "30 s", .help = ""},
    {.name = "chains", .argument = "N", .default_value = "", .help = ""},
    {.name = "schedule", .argument = "NAME", .default_value = "1f1b", .help = ""},
    {.name = "json", .argument = "", .default_value = "", .help = ""},
    {.name = "output", .argument = "FILE", .default_value = "", .help = "", .letter = 'o'},
    {.name = "plan", .argument = "FILE", .default_value = "", .help = "", .repeated = true},
};
const std::vector<Operand> kOperands = {{.name = "MODEL", .help = ""},
                                        {.name = "TOPOLOGY", .help = "", .required = false}};

Arguments arguments(const std::vector<std::string>& words) { return {"search", kOptions, kOperands, words}; }

std::string refused(const std::vector<std::string>& words) {
  return refusal<UsageError>([&] { arguments(words); });
}

TEST(Arguments, TakesOptionsAnywhereAndOperandsInOrder) {
  const Arguments given = arguments({"vgg16", "--chains", "4", "--json", "dgx-1", "-o", "plan.json"});
  EXPECT_THAT(given.operands(), ElementsAre("vgg16", "dgx-1"));
  EXPECT_EQ(given.integer("chains", 1, 64), 4);
  EXPECT_TRUE(given.given("json"));
  EXPECT_EQ(given.text("output"), "plan.json");
}

TEST(Arguments, UsesDefaultsForWhatIsNotGiven) {
  const Arguments given = arguments({"vgg16"});
  EXPECT_FALSE(given.given("budget"));
  EXPECT_TRUE(given.has("budget"));
  EXPECT_EQ(given.duration("budget"), Seconds(30));
  EXPECT_FALSE(given.has("chains"));
  EXPECT_FALSE(given.given("json"));
}

TEST(Arguments, TakesRepeatedOptionsInOrder) {
  EXPECT_THAT(arguments({"vgg16", "--plan", "b", "--plan=a"}).texts("plan"), ElementsAre("b", "a"));
  EXPECT_TRUE(arguments({"vgg16"}).texts("plan").empty());
}

TEST(Arguments, TakesValuesAfterAnEqualsSign) {
  const Arguments given = arguments({"vgg16", "--budget=2 min", "--chains=3"});
  EXPECT_EQ(given.duration("budget"), Seconds(120));
  EXPECT_EQ(given.number("chains"), 3.0);
}

TEST(Arguments, TakesWordsAfterTwoDashesAsOperands) {
  EXPECT_THAT(arguments({"--", "--json", "-o"}).operands(), ElementsAre("--json", "-o"));
}

TEST(Arguments, NamesUnknownOptionsAndWhatWasMeant) {
  EXPECT_EQ(refused({"vgg16", "--budgt", "3"}),
            "search: unknown option --budgt (did you mean --budget?); see \"pipesim help search\"");
  EXPECT_EQ(refused({"vgg16", "--jso"}),
            "search: unknown option --jso (did you mean --json?); see \"pipesim help search\"");
  EXPECT_EQ(refused({"vgg16", "--frobnicate"}),
            "search: unknown option --frobnicate; see \"pipesim help search\"");
  EXPECT_EQ(refused({"vgg16", "-x"}), "search: unknown option -x; see \"pipesim help search\"");
}

TEST(Arguments, RefusesMissingExtraAndRepeatedValues) {
  EXPECT_EQ(refused({"vgg16", "--budget"}),
            "search: option --budget needs TIME; see \"pipesim help search\"");
  EXPECT_EQ(refused({"vgg16", "-o"}), "search: option --output needs FILE; see \"pipesim help search\"");
  EXPECT_EQ(refused({"vgg16", "--budget="}),
            "search: option --budget needs TIME; see \"pipesim help search\"");
  EXPECT_EQ(refused({"vgg16", "--json=1"}),
            "search: option --json takes no value; see \"pipesim help search\"");
  EXPECT_EQ(refused({"a", "--chains=1", "--chains=2"}),
            "search: option --chains is given twice; see \"pipesim help search\"");
}

TEST(Arguments, CountsOperands) {
  EXPECT_EQ(refused({}), "search: MODEL is missing; see \"pipesim help search\"");
  EXPECT_EQ(refused({"a", "b", "c"}),
            "search: unexpected \"c\" (it takes MODEL TOPOLOGY); see \"pipesim help search\"");
  EXPECT_EQ(refusal<UsageError>([] { Arguments("version", {}, {}, {"x"}); }),
            "version: unexpected \"x\" (it takes no operands); see \"pipesim help version\"");
  const Arguments many("report", {}, {{.name = "PLAN", .help = "", .repeated = true}}, {"a", "b", "c"});
  EXPECT_THAT(many.operands(), ElementsAre("a", "b", "c"));
}

TEST(Arguments, ChecksNumbers) {
  const auto chains = [](const std::string& value) {
    return refusal<UsageError>([&] { (void)arguments({"m", "--chains=" + value}).integer("chains", 1, 64); });
  };
  EXPECT_EQ(
      chains("0"),
      "search: option --chains needs a whole number from 1 to 64, not \"0\"; see \"pipesim help search\"");
  EXPECT_EQ(
      chains("4x"),
      "search: option --chains needs a whole number from 1 to 64, not \"4x\"; see \"pipesim help search\"");
  EXPECT_EQ(chains("99999999999999999999"),
            "search: option --chains needs a whole number from 1 to 64, not \"99999999999999999999\"; see "
            "\"pipesim "
            "help search\"");
  EXPECT_EQ(refusal<UsageError>([] {
              (void)arguments({"m", "--chains=nan"}).number("chains", 0);
            }),
            "search: option --chains needs a number of at least 0, not \"nan\"; see \"pipesim help search\"");
}

TEST(Arguments, ChecksDurationsAndChoices) {
  EXPECT_THAT(refusal<UsageError>([] {
                (void)arguments({"m", "--budget=soon"}).duration("budget");
              }),
              testing::StartsWith("search: option --budget: \"soon\" is not a duration: "));
  const std::vector<std::string> schedules = {"gpipe", "1f1b"};
  EXPECT_EQ(arguments({"m"}).choice("schedule", schedules), "1f1b");
  EXPECT_EQ(refusal<UsageError>([&] {
              (void)arguments({"m", "--schedule=gpip"}).choice("schedule", schedules);
            }),
            "search: option --schedule is one of gpipe, 1f1b, not \"gpip\" (did you mean \"gpipe\"?); see "
            "\"pipesim "
            "help search\"");
}

TEST(Arguments, AskingForAValueThatCannotBeThereIsABug) {
  EXPECT_THROW((void)arguments({"m"}).text("chains"), InternalError);
}

}  // namespace
}  // namespace pipesim
