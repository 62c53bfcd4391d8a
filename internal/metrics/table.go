package metrics

import "github.com/prometheus/client_golang/prometheus"

// metric describes one metric; from it come its registration and its row in
// docs/metrics.md.
type metric struct {
	name   string
	kind   string // counter, gauge or histogram
	help   string
	labels []string
}

// The kinds.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// What the engine reports while it works.
var (
	puts           = metric{"pawl_puts_total", counter, "Puts and Deletes, by how they were answered. Those for names that are no sink's count for the sink \"other\".", []string{"sink", "outcome"}}
	coalesced      = metric{"pawl_puts_coalesced_total", counter, "Puts and Deletes that replaced older work, which is never delivered.", []string{"sink"}}
	putSeconds     = metric{"pawl_put_duration_seconds", histogram, "Time until a Put or Delete was durable, or refused.", nil}
	calls          = metric{"pawl_calls_total", counter, "Calls to sinks, by operation and how they ended.", []string{"sink", "op", "status"}}
	callSeconds    = metric{"pawl_call_duration_seconds", histogram, "Time that calls to sinks took.", []string{"sink", "op"}}
	deliveries     = metric{"pawl_deliveries_total", counter, "Deliveries, each counted once by its outcome.", []string{"sink", "outcome"}}
	deliverySecs   = metric{"pawl_delivery_duration_seconds", histogram, "Time that deliveries took, all their calls together.", nil}
	ackSeconds     = metric{"pawl_ack_duration_seconds", histogram, "Time from a Put to the acknowledgement of its generation by the target.", []string{"sink"}}
	breakerMoves   = metric{"pawl_breaker_transitions_total", counter, "Times that a sink's circuit breaker opened or closed.", []string{"sink", "to"}}
	commitSeconds  = metric{"pawl_store_commit_duration_seconds", histogram, "Time that transactions of the store took, fsync included.", nil}
	commitChanges  = metric{"pawl_store_commit_changes", histogram, "Changes that shared one transaction of the store.", nil}
	swaps          = metric{"pawl_plugin_swaps_total", counter, "Times that a plugin's module changed while the daemon ran, by result: swapped, postponed (a target did not answer; the old one serves until it does), or refused (the old one goes on).", []string{"plugin", "result"}}
	sagaOutcomes   = metric{"pawl_sagas_total", counter, "Sagas whose outcome became known, by mode and outcome.", []string{"mode", "outcome"}}
	sagaSeconds    = metric{"pawl_saga_duration_seconds", histogram, "Time from a saga's start until its outcome was durable.", []string{"mode"}}
	sagaUndos      = metric{"pawl_saga_undo_total", counter, "Calls that took a step of a saga back, retries included.", []string{"sink"}}
	sourceChanges  = metric{"pawl_source_changes_total", counter, "Changes that sources told, by kind (put or delete) and result: changed, unchanged, refused, failed (told again later), or held by the fuse.", []string{"source", "kind", "result"}}
	reloads        = metric{"pawl_config_reloads_total", counter, "Times that the configuration was read again, by result: applied, unchanged, or refused (the one in force stays).", []string{"result"}}
	configRefused  = metric{"pawl_config_refused", gauge, "1 while the configuration file is not in force because something is wrong with it.", nil}
	configRestart  = metric{"pawl_config_restart_keys", gauge, "Keys of the configuration file that differ from those in force and need a restart.", nil}
	commitFailures = metric{"pawl_store_commit_failures_total", counter, "Transactions of the store that failed.", nil}
)

// What is read at each scrape.
var (
	buildInfo      = metric{"pawl_build_info", gauge, "Always 1; its labels say what is running.", []string{"version", "commit", "goversion"}}
	resources      = metric{"pawl_resources", gauge, "Resources, by sink and phase; all but Acked, Failed and Obsolete are the outbox's depth.", []string{"sink", "phase"}}
	oldestUnacked  = metric{"pawl_oldest_unacked_age_seconds", gauge, "Age of the oldest change that its target has not acknowledged; 0: there is none.", []string{"sink"}}
	due            = metric{"pawl_waiting_resources", gauge, "Resources that wait for their turn, due now or later, by class: fresh, retry, or check for drift.", []string{"sink", "class"}}
	inFlight       = metric{"pawl_calls_in_flight", gauge, "Deliveries under way.", []string{"sink"}}
	breakerState   = metric{"pawl_breaker_state", gauge, "1 for the state that the sink's circuit breaker is in.", []string{"sink", "state"}}
	suspended      = metric{"pawl_sink_suspended", gauge, "1 while a sink's calls are held.", []string{"sink"}}
	sinkReady      = metric{"pawl_sink_ready", gauge, "0 while a sink's plugin can't be called yet: its target did not answer when it was configured.", []string{"sink"}}
	pausedSeconds  = metric{"pawl_sink_pause_remaining_seconds", gauge, "How long the target still asked us to pause (Retry-After).", []string{"sink"}}
	configured     = metric{"pawl_sink_configured", gauge, "0 for a sink that left the configuration and has resources still.", []string{"sink"}}
	instances      = metric{"pawl_plugin_instances", gauge, "Plugin instances.", []string{"sink", "plugin"}}
	pluginInFlight = metric{"pawl_plugin_calls_in_flight", gauge, "Calls that a plugin's instances hold.", []string{"sink", "plugin"}}
	pluginFaults   = metric{"pawl_plugin_faults_total", counter, "Faults of a plugin, by kind: traps, limits exceeded, malformed answers.", []string{"sink", "plugin", "kind"}}
	pluginMemory   = metric{"pawl_plugin_memory_bytes", gauge, "Memory of a plugin's instances.", []string{"sink", "plugin"}}
	pluginWaiting  = metric{"pawl_plugin_waiting_calls", gauge, "Calls that wait in the host for room in a plugin's instance.", []string{"sink", "plugin"}}
	pluginHeld     = metric{"pawl_plugin_held_bytes", gauge, "Payloads and responses that wait for a plugin in the host.", []string{"sink", "plugin"}}
	pluginIOs      = metric{"pawl_plugin_ios_in_flight", gauge, "Requests and sleeps of a plugin that are under way.", []string{"sink", "plugin"}}
	pluginCPU      = metric{"pawl_plugin_cpu_seconds_total", counter, "CPU time that a plugin used.", []string{"sink", "plugin"}}
	pluginThrottle = metric{"pawl_plugin_throttled_seconds_total", counter, "Time that a plugin was held back because it had used more than its cpu_share and others wanted to run.", []string{"sink", "plugin"}}
	pluginRestarts = metric{"pawl_plugin_restarted_calls_total", counter, "Calls that were run again because another one's fault took their instance away.", []string{"sink", "plugin"}}
	pluginRecycled = metric{"pawl_plugin_recycled_instances_total", counter, "Instances that were replaced because their memory had grown.", []string{"sink", "plugin"}}
	pluginLinesOut = metric{"pawl_plugin_log_lines_dropped_total", counter, "Log lines of a plugin over log_lines and log_bytes.", []string{"sink", "plugin"}}
	pluginLimited  = metric{"pawl_plugin_limited_total", counter, "Times that a limit refused what a plugin asked for, without a fault, by the limit's key.", []string{"sink", "plugin", "limit"}}
	compilations   = metric{"pawl_plugin_compilations_total", counter, "Plugins loaded, by result: compiled, cached (taken from the compile cache), or refused (not compiled, or not within the limits).", []string{"result"}}
	compileSeconds = metric{"pawl_plugin_compile_seconds_total", counter, "Time that compiling plugins took.", nil}
	memoryReserved = metric{"pawl_plugin_memory_reserved_bytes", gauge, "What is set aside of limits.plugin_memory_max_bytes.", nil}
	stored         = metric{"pawl_stored_resources", gauge, "Resources in the store, those included of which only the source's order is remembered.", nil}
	scheduleBytes  = metric{"pawl_schedule_memory_bytes", gauge, "Memory of the schedule.", nil}
	sagasRunning   = metric{"pawl_sagas_running", gauge, "Sagas that have not ended.", nil}
	unresolved     = metric{"pawl_sagas_unresolved", gauge, "Sagas whose deadline has passed, or that can't go on without an operator, while nobody can say how they end.", nil}
	sourceUp       = metric{"pawl_source_up", gauge, "0 while a source does not run, or something keeps it from being read or stored.", []string{"source"}}
	sourceOwned    = metric{"pawl_source_resources", gauge, "Resources that a source owns.", []string{"source"}}
	sourceHeld     = metric{"pawl_source_held", gauge, "Deletions of a source that its fuse holds until an operator confirms them.", []string{"source"}}
	sourceKept     = metric{"pawl_source_kept", gauge, "Things that a source has and that can't be read or were refused; what they stand for stays as it is.", []string{"source"}}
	sourceContact  = metric{"pawl_source_contact_timestamp_seconds", gauge, "When a pawl that sends last sent or asked something, in seconds since 1970; 0: not since the start. Of senders alone.", []string{"source"}}
	sourceFullAt   = metric{"pawl_source_full_timestamp_seconds", gauge, "When a source's newest full set was through, in seconds since 1970; 0: none was since the start.", []string{"source"}}
	watchers       = metric{"pawl_watchers", gauge, "Watches under way.", nil}
	waiters        = metric{"pawl_waiters", gauge, "Waits for an acknowledgement under way.", nil}
	storeCommits   = metric{"pawl_store_commits_total", counter, "Transactions of the store.", nil}
	storeChanges   = metric{"pawl_store_changes_total", counter, "Changes handed to the store, before those of one key in one transaction are merged.", nil}
	storeRecords   = metric{"pawl_store_records_written_total", counter, "Records written, after merging.", nil}
	storeWritten   = metric{"pawl_store_written_bytes_total", counter, "Bytes of records handed to the store.", nil}
	storeWaiting   = metric{"pawl_store_waiting_changes", gauge, "Changes that wait for their transaction.", nil}
	storeRevision  = metric{"pawl_store_revision", gauge, "Newest durable revision.", nil}
	storeSize      = metric{"pawl_store_size_bytes", gauge, "Size of the store on disk.", nil}
	storeFree      = metric{"pawl_store_free_bytes", gauge, "Free space on the store's file system; absent where unknown.", nil}
	storeReserve   = metric{"pawl_store_reserve_bytes", gauge, "Free space below which Puts are refused.", nil}
	storeGarbage   = metric{"pawl_store_garbage_bytes", gauge, "What compaction could free, an estimate; absent where unknown.", nil}
	storeRefusing  = metric{"pawl_store_refusing_puts", gauge, "1 while Puts are refused because the disk is nearly full.", nil}
	storeBackup    = metric{"pawl_store_backup_timestamp_seconds", gauge, "When the newest backup of the store ended; absent: there is none that it knows of.", nil}
	compactions    = metric{"pawl_store_compactions_total", counter, "Runs of the store's own compaction.", nil}
)

func reported() []metric {
	return []metric{
		puts, coalesced, putSeconds, calls, callSeconds, deliveries, deliverySecs, ackSeconds,
		breakerMoves, swaps, commitSeconds, commitChanges, commitFailures,
		sagaOutcomes, sagaSeconds, sagaUndos, sourceChanges, compared, comparedFound, relayItems, relayFound, spans,
		reloads, configRefused, configRestart, apiDenied, apiThrottled, auditLost,
	}
}

func scraped() []metric {
	return []metric{
		buildInfo, resources, oldestUnacked, due, inFlight, breakerState, suspended, sinkReady, pausedSeconds, configured,
		instances, pluginInFlight, pluginFaults, pluginMemory, pluginWaiting, pluginHeld,
		pluginIOs, pluginCPU, pluginThrottle, pluginRestarts, pluginRecycled, pluginLinesOut, pluginLimited,
		compilations, compileSeconds, memoryReserved, stored, scheduleBytes, watchers, waiters, sagasRunning, unresolved,
		sourceUp, sourceOwned, sourceHeld, sourceKept, sourceFullAt, sourceContact,
		storeCommits, storeChanges, storeRecords, storeWritten, storeWaiting, storeRevision,
		storeSize, storeFree, storeReserve, storeGarbage, storeRefusing, storeBackup, compactions,
	}
}

func (m metric) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name, Help: m.help}, m.labels)
}

// histogram has native buckets, 10% apart, for those who scrape protobuf, and
// the classic ones given for all others.
func (m metric) histogram(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.name, Help: m.help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
	}, m.labels)
}

func (m metric) desc() *prometheus.Desc {
	return prometheus.NewDesc(m.name, m.help, m.labels, nil)
}
