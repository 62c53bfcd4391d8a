package config

// Over is what is in force once a daemon that runs with c has taken next over: next's
// plugins, upstreams, defaults, sinks, sources, sagas, limits.max_in_flight,
// server.limits and log.level, and all else of c, which needs a restart. Errors about it
// point at the file of next.
func (c *Config) Over(next *Config) *Config {
	out := *c
	out.Log.Level, out.Limits.MaxInFlight = next.Log.Level, next.Limits.MaxInFlight
	out.Server.Limits = next.Server.Limits
	out.File, out.origins, out.bundled = next.File, next.origins, next.bundled
	out.Plugins, out.Upstreams, out.Defaults = next.Plugins, next.Upstreams, next.Defaults
	out.Sinks, out.Sources, out.Sagas = next.Sinks, next.Sources, next.Sagas
	return &out
}
