package config

import (
	"strings"
	"testing"
)

func TestTracingIsSentToAURLOnBehalfOfUpstreamsThatExist(t *testing.T) {
	const upstreams = "upstreams: {web: {base_url: \"http://web\"}}\n"
	for name, c := range map[string]struct{ tracing, want string }{
		"nothing":      {`{}`, ""},
		"all":          {`{endpoint: "https://collector:4317", protocol: grpc, ratio: 0.1, ca_file: ca.pem, header: {name: X-Key, secret: {env: KEY}}, upstreams: [web]}`, ""},
		"no URL":       {`{endpoint: "collector:4317"}`, `tracing.endpoint: is no URL with a scheme and a host; write it as in http://127.0.0.1:4318`},
		"a password":   {`{endpoint: "http://me:s3cret@collector:4318"}`, `tracing.endpoint: must not hold user and password; write it as in http://127.0.0.1:4318; a credential goes to tracing.header`},
		"no protocol":  {`{protocol: udp}`, `tracing.protocol`},
		"too much":     {`{ratio: 1.5}`, `tracing.ratio`},
		"CA of http":   {`{endpoint: "http://collector:4318", ca_file: ca.pem}`, `tracing.ca_file: is set, and the endpoint is http`},
		"no header":    {`{header: {name: "X Key", secret: {env: KEY}}}`, `tracing.header.name: "X Key" is no name of a header`},
		"no secret":    {`{header: {name: X-Key}}`, `tracing.header.secret: needs one of file, env and value`},
		"no upstream":  {`{upstreams: [wbe]}`, `tracing.upstreams[0]: no upstream is called "wbe"; did you mean web?`},
		"with a query": {`{endpoint: "http://collector:4318/?x=1"}`, `tracing.endpoint: must not have a query`},
	} {
		_, err := Load(Options{File: write(t, upstreams+"tracing: "+c.tracing+"\n")})
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
}
