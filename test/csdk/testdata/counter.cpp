// A plugin in C++: its constructors run, and what it keeps outlives a call.
#include "pawl.h"

namespace {

volatile uint64_t start = 40; // volatile: the compiler can't run the constructor in advance

struct Counter {
    uint64_t n;
    Counter() : n(start) {}
};

Counter counter;

pawl_result apply(pawl_call *call, const pawl_request *r) {
    pawl_result result = pawl_success();
    result.observation.exists = true;
    result.observation.ref = PAWL_CAT(call, r->key, PAWL_STR(" "), pawl_decimal(call, ++counter.n));
    return result;
}

pawl_adapter adapter() {
    pawl_adapter a{};
    a.manifest.name = "counter";
    a.manifest.version = "1.0.0";
    a.manifest.finds_by_key = true;
    a.apply = apply;
    return a;
}

} // namespace

extern const pawl_adapter pawl_plugin = adapter();
