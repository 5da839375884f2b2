#pragma once
// The one root namespace. Core types live in flambeau::c10 and are visible unqualified in flambeau.
namespace flambeau {
namespace c10 {}
using namespace c10;
}  // namespace flambeau
