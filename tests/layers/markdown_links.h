#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/layers/source_tree.h"

namespace pipesim {

/// The anchors of a Markdown text, one for each heading, as GitHub makes them: "Models of Hugging Face" is
/// "models-of-hugging-face", and a second one of that name has "-1".
std::vector<std::string> anchors_of(const std::string& text);

/// The links of a Markdown file that lead nowhere, as `PATH:LINE: REASON`: a relative link must name a file
/// or folder below `root`, and what stands after "#" a heading of `pages`, by their paths. Addresses of the
/// web and what stands in code are left out.
std::vector<std::string> dead_links(const SourceFile& page, const std::map<std::string, std::string>& pages,
                                    const std::string& root);

}  // namespace pipesim
