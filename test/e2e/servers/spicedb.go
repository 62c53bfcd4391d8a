package servers

import (
	"context"
	"net/http"
)

// SpiceDB is a SpiceDB that keeps its data in memory.
type SpiceDB struct {
	Address string // of gRPC without TLS: 127.0.0.1:PORT
	HTTP    string // of its HTTP gateway: http://127.0.0.1:PORT
	Key     string // the preshared key

	process *process
}

// StartSpiceDB starts SpiceDB with its log in dir and waits until it is ready.
// args are further flags, such as limits.
func StartSpiceDB(ctx context.Context, dir string, args ...string) (*SpiceDB, error) {
	program, err := Build(ctx, "spicedb")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	s := &SpiceDB{Address: "127.0.0.1:" + ports[0], HTTP: "http://127.0.0.1:" + ports[1], Key: "spicedb-key"}
	s.process, err = start(program, dir, append([]string{
		"serve", "--grpc-preshared-key", s.Key, "--datastore-engine", "memory", "--grpc-addr", s.Address,
		"--http-enabled", "--http-addr", "127.0.0.1:" + ports[1], "--metrics-addr", "127.0.0.1:" + ports[2],
		"--telemetry-endpoint", "", "--skip-release-check"}, args...)...)
	if err != nil {
		return nil, err
	}
	err = s.process.ready(ctx, func(ctx context.Context) error { return get(ctx, http.DefaultClient, s.HTTP+"/healthz", s.Key) })
	if err != nil {
		s.process.kill()
		return nil, err
	}
	return s, nil
}

// Stop ends the server; its data is gone.
func (s *SpiceDB) Stop() { s.process.stop() }
