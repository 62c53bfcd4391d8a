package config

// Tracing is OpenTelemetry traces of what happens to changes.
type Tracing struct {
	Endpoint  string            `key:"endpoint" doc:"URL of what takes traces by OTLP, as in http://127.0.0.1:4318. Empty: none are made."`
	Protocol  string            `key:"protocol" default:"http" oneof:"http|grpc" doc:"http: protobuf over HTTP, to /v1/traces below the endpoint; grpc: gRPC, to the endpoint's host and port."`
	Ratio     float64           `key:"ratio" default:"1" min:"0" max:"1" doc:"Share of changes, and of looks at targets, that are traced. A caller that sends a traceparent decides by itself."`
	Header    *HeaderCredential `key:"header" doc:"Header that goes with the traces, an API key say. It is read when the daemon starts."`
	CAFile    string            `key:"ca_file" type:"path" doc:"PEM certificates to trust at an https endpoint, instead of the system's."`
	Upstreams []string          `key:"upstreams" doc:"Names of the upstreams whose requests bear the trace's context, as the W3C header traceparent. Absent: none."`
}
