package api

import "time"

// The results of a reload.
const (
	ReloadApplied   = "applied"
	ReloadUnchanged = "unchanged"
	ReloadRefused   = "refused"
)

// Reload is what came of reading the configuration again, or would come of it.
type Reload struct {
	Result string    `json:"result" enum:"applied,unchanged,refused" doc:"applied: what changed is in force, except for what needs a restart. unchanged: nothing differs that a running daemon takes over. refused: something is wrong with it, and the one in force stays, whole."`
	DryRun bool      `json:"dryRun,omitempty" doc:"Nothing was changed: it is what a reload would do."`
	File   string    `json:"file,omitempty" doc:"The configuration file."`
	At     time.Time `json:"at" doc:"When."`

	Changes  []ConfigChange `json:"changes" doc:"What differs from the configuration in force, by key. Empty where it is refused as it can't be read."`
	Sinks    SinkMoves      `json:"sinks" doc:"What becomes of sinks."`
	Sources  SourceMoves    `json:"sources" doc:"What becomes of sources."`
	Errors   []ConfigError  `json:"errors,omitempty" doc:"Why it is refused."`
	Problems []string       `json:"problems,omitempty" doc:"What of an applied one could not be done; the next reload tries it again."`
}

// ConfigChange is a key whose value differs.
type ConfigChange struct {
	Key     string `json:"key" doc:"Path of the key."`
	Change  string `json:"change" enum:"added,removed,changed" doc:"Of what is added or removed its own key is told alone."`
	From    string `json:"from,omitempty" doc:"The value in force; of a secret [redacted]."`
	To      string `json:"to,omitempty" doc:"The value in the file; of a secret [redacted]."`
	Restart bool   `json:"restart,omitempty" doc:"It is left as it is until the daemon is restarted."`
}

// SinkMoves are sinks by what becomes of them.
type SinkMoves struct {
	Added    []string `json:"added,omitempty" doc:"They begin; what is stored for them goes on."`
	Reopened []string `json:"reopened,omitempty" doc:"Their plugin is configured anew; what began goes on to its end by the old settings."`
	Changed  []string `json:"changed,omitempty" doc:"Limits and policies change, and their plugin goes on."`
	Removed  []string `json:"removed,omitempty" doc:"They end when their calls in flight have; their resources stay, as Orphaned."`
	NotReady []string `json:"notReady,omitempty" doc:"Those of the added and reopened whose target does not answer; they start later, by themselves."`
}

// SourceMoves are sources by what becomes of them.
type SourceMoves struct {
	Begun []string `json:"begun,omitempty" doc:"They begin, or begin anew, with a full set."`
	Ended []string `json:"ended,omitempty" doc:"They end; what they own stays."`
}

// ConfigError is one thing that is wrong with a configuration.
type ConfigError struct {
	File   string `json:"file,omitempty" doc:"The file; absent where the value is from a variable or a flag."`
	Line   int    `json:"line,omitempty" doc:"From 1."`
	Column int    `json:"column,omitempty" doc:"From 1, in characters."`
	Key    string `json:"key,omitempty" doc:"Path of the key."`
	Text   string `json:"text" doc:"All of it in a line, as pawl config check prints it."`
}

// ConfigStatus is how the configuration in force and its file are to each other.
type ConfigStatus struct {
	File      string    `json:"file,omitempty" doc:"The configuration file; absent: there is none."`
	LoadedAt  time.Time `json:"loadedAt" doc:"Since when the configuration in force is."`
	RefusedAt time.Time `json:"refusedAt,omitzero" doc:"When the file was refused as it is now; absent: it is not."`
	Errors    []string  `json:"errors,omitempty" doc:"Why, as pawl config check prints it."`
	Restart   []string  `json:"restart,omitempty" doc:"Keys that differ and need a restart."`
}
