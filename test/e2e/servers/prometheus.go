package servers

import (
	"context"
	"net/http"
)

// StartPrometheus starts Prometheus with a configuration file, its files in dir, and
// waits until it answers at address, HOST:PORT. stop ends it.
func StartPrometheus(ctx context.Context, dir, address, config string) (stop func(), err error) {
	program, err := Build(ctx, "prometheus")
	if err != nil {
		return nil, err
	}
	p, err := start(program, dir, "--config.file", config, "--storage.tsdb.path", "data", "--web.listen-address", address)
	if err != nil {
		return nil, err
	}
	err = p.ready(ctx, func(ctx context.Context) error { return get(ctx, http.DefaultClient, "http://"+address+"/-/ready", "") })
	if err != nil {
		p.kill()
		return nil, err
	}
	return p.stop, nil
}
