#include "tests/layers/markdown_links.h"

#include <gmock/gmock.h>

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MarkdownLinks, LeadSomewhereInTheWholeRepository) {
  std::map<std::string, std::string> pages;
  const std::vector<SourceFile> files = markdown_pages();
  for (const SourceFile& file : files) pages.emplace(file.path, file.text);
  ASSERT_TRUE(pages.contains("README.md") && pages.contains("docs/README.md") &&
              pages.contains("python/README.md"))
      << "the scan did not find the pages";
  for (const SourceFile& file : files) EXPECT_THAT(dead_links(file, pages, PIPESIM_SOURCE_DIR), IsEmpty());
}

TEST(MarkdownLinks, AnchorsAreThoseOfHeadings) {
  EXPECT_THAT(anchors_of("# Add a `split`, or two\n```sh\n# no heading\n```\n## Rules\n### Rules\n#none\n"),
              ElementsAre("add-a-split-or-two", "rules", "rules-1"));
}

TEST(MarkdownLinks, CatchThoseThatLeadNowhere) {
  const std::map<std::string, std::string> pages{{"docs/a.md", "# One\n"}, {"README.md", "## Start\n"}};
  const auto dead = [&](const std::string& text) {
    return dead_links({"docs/a.md", text}, pages, PIPESIM_SOURCE_DIR);
  };
  EXPECT_THAT(dead("[a](../README.md#start), [b](https://x.org/y#z), [c](../tests/layers), ![d](a.md)\n"),
              IsEmpty());
  EXPECT_THAT(dead("\n[a](b.md)\n"), ElementsAre("docs/a.md:2: b.md: there is no such file"));
  EXPECT_THAT(dead("[`a`](../README.md#end)\n"),
              ElementsAre("docs/a.md:1: ../README.md#end: no heading has this name"));
  EXPECT_THAT(dead("# One\n[a](#one) [b](#two)\n"),
              ElementsAre("docs/a.md:2: #two: no heading has this name"));
  EXPECT_THAT(dead("`[](b.md)`\n```\n[](b.md)\n```\n"), IsEmpty());
}

}  // namespace
}  // namespace pipesim
