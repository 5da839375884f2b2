// Runs the registered tests; an argument selects those whose name contains it.
#include "harness.h"

int main(int argc, char** argv) { return flambeau::testing::run_all(argc > 1 ? argv[1] : ""); }
