#include "tools/cli/streams.h"

#include <nlohmann/json.hpp>
#include <ostream>

namespace pipesim {

void give_document(Streams& streams, const nlohmann::ordered_json& document) {
  if (streams.caller != nullptr) {
    streams.caller->take_document(document);
  } else {
    streams.out << document.dump(2) << "\n";
  }
}

}  // namespace pipesim
