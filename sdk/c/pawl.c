/*
 * pawl.c: what stands between a plugin and the host, as one source file to
 * compile beside the plugin's own. See pawl.h.
 */
#include "pawl.h"

#include "src/arena.c"
#include "src/text.c"
#include "src/wire.c"
#include "src/codec.c"
#include "src/json.c"
#ifdef __wasm__
#include "src/host_wasm.c"
#else
#include "src/host_native.c"
#endif
#include "src/http.c"
#include "src/serve.c"
#ifdef __wasm__
#include "src/exports.c"
#else
#include "src/pawltest.c"
#endif
