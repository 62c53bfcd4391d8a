package wasmhost

const meterModule, meterRefill, meterTooDeep = "pawl_meter", "refill", "too_deep"

func rewrite(wasm []byte) ([]byte, error) { return wasm, nil }
