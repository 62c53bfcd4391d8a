package relay

import (
	"context"
	"fmt"
	"maps"

	"github.com/pawlsync/pawl/internal/api"
)

// Retries are quick, so that tests are; drift is looked for after a start alone.
const quick = "drift_interval: 0s, timeout: 3s, retry: {base: 50ms, max: 500ms, max_attempts: 1000}, breaker: {probe_base: 50ms, probe_max: 500ms}"

// principalConfig takes from edge-*, and hands on to the target.
func principalConfig(x *target, fuse string) string {
	return fmt.Sprintf(`upstreams: {target: {base_url: %q}}
sinks:
  web: {plugin: http, upstreams: [target], startup_rate: 5000, %s, config: {path: "/o/{key}"}}
sources:
  edges: {pawl: {senders: ["edge-*"], sinks: [web]}, fuse: {%s}}
`, x.server.URL, quick, fuse)
}

const noFuse = "share: 1.0, at_least: 1000000"

// agentConfig sends all to the sink web of another pawl, below the sender's name.
func agentConfig(to, sender, ack string) string {
	return fmt.Sprintf(`upstreams: {up: {base_url: %q}}
sinks:
  up: {plugin: pawl, upstreams: [up], %s, config: {sender: %q, sink: web, prefix: %q, ack: %s}}
`, to, quick, sender, sender+"/", ack)
}

// batch puts lines, and returns when all are durable.
func (p *pawl) batch(ctx context.Context, lines []api.BatchLine) error {
	answered := 0
	for a, err := range p.Batch(ctx, func(yield func(api.BatchLine) bool) {
		for _, l := range lines {
			if !yield(l) {
				return
			}
		}
	}) {
		if err != nil {
			return err
		}
		if a.Error != nil {
			return a.Error
		}
		answered++
	}
	if answered != len(lines) {
		return fmt.Errorf("%d lines were answered of %d", answered, len(lines))
	}
	return nil
}

// under is payloads with a prefix to their keys.
func under(prefix string, payloads map[string]string) map[string]string {
	out := map[string]string{}
	for key, payload := range payloads {
		out[prefix+key] = payload
	}
	return out
}

// both joins what two agents hold.
func both(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
