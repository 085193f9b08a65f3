// Units by name, for errors and traces: "weights of layer 3", "KV chunk 2 of layer 3".
#pragma once

#include <string>

#include "actors/units.h"

namespace mzcache::actors {

[[nodiscard]] inline std::string unit_name(UnitId unit) {
  switch (unit.kind) {
    case UnitKind::kWeights:
      return "weights of layer " + std::to_string(unit.layer);
    case UnitKind::kHead:
      return "output head";
    case UnitKind::kKv:
      break;
  }
  return "KV chunk " + std::to_string(unit.chunk) + " of layer " + std::to_string(unit.layer);
}

}  // namespace mzcache::actors
