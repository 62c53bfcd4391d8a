package config

import (
	"encoding/json"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Config is everything that the daemon can be told. Load fills every field;
// what nobody set has its default. The tags are the one table from which the
// defaults, the checks, Reference and docs/config.md come:
//
//	key      name in the file; ",inline" lifts the struct's keys into the parent
//	default  value where nobody sets one
//	dynamic  how the default is found where it depends on the environment
//	min, max bounds, both allowed; zero: what 0 means where min would forbid it
//	oneof    the words allowed, separated by |
//	unit     what a number counts
//	type     "path" (relative to the file's folder) or "scalar" (any one value) where the Go type does not tell
//	names    "identifiers": the names of the table have underscores, not hyphens
//	inherits "defaults": an unset key takes its value from the same section there
//	flag     the command line flag that sets it
//	doc      one sentence or more for people
type Config struct {
	// File is the file that was read; "" if there was none.
	File string `key:"-"`

	Server    Server              `key:"server" doc:"The HTTP API."`
	Store     Store               `key:"store" doc:"The durable outbox on disk."`
	Log       Log                 `key:"log" doc:"The daemon's own log, on standard error."`
	Limits    Limits              `key:"limits" doc:"Bounds for the whole daemon."`
	Metrics   Metrics             `key:"metrics" doc:"Prometheus metrics."`
	Tracing   Tracing             `key:"tracing" doc:"OpenTelemetry traces of changes, from Put to acknowledgement; see monitoring.md."`
	Wasm      Wasm                `key:"wasm" doc:"How plugins are compiled."`
	Plugins   map[string]Plugin   `key:"plugins" doc:"Plugins by name. The bundled ones (http) are there without being declared."`
	Upstreams map[string]Upstream `key:"upstreams" doc:"Addresses that plugins may reach, with the credentials that they never see."`
	Defaults  SinkSettings        `key:"defaults" doc:"Settings of every sink that does not set them itself."`
	Sinks     map[string]Sink     `key:"sinks" doc:"Targets by name: a plugin, its config, and the upstreams granted to it."`
	Sources   map[string]Source   `key:"sources" doc:"Where desired state comes from, besides the API, by name. A source owns the resources that it put."`
	Sagas     map[string]Saga     `key:"sagas" doc:"Templates by name: sagas that callers start with a few parameters, and without knowing the sinks."`

	origins map[string]origin // where each value that is no default comes from, by key path
	bundled []string          // the plugins that are there undeclared
}

// Server is the HTTP API.
type Server struct {
	Listen          string                  `key:"listen" default:"127.0.0.1:7295" flag:"listen" doc:"Address and port of the API. One that is not loopback needs token_file, tls.client_ca_file or token_review."`
	TokenFile       string                  `key:"token_file" type:"path" doc:"File with the tokens that callers may send, which pawl token looks after; see access.md. It is read again when it changes."`
	AuditFile       string                  `key:"audit_file" type:"path" doc:"File that gets a line of JSON for each change that a caller makes, or was not allowed to make; see access.md. It is appended to, and made anew where it was renamed. Empty: the log alone has them, without Puts and Deletes."`
	Socket          string                  `key:"socket" type:"path" doc:"Unix socket to listen on as well, without TLS. The daemon's own user and root may do everything there, and nobody else may connect, but for socket_clients."`
	SocketClients   map[string]SocketClient `key:"socket_clients" doc:"Other users of this machine who may use the socket, by a name of your choice: it is then open to all, and the system says who connects. Of several that fit, the first by name counts. Linux and macOS."`
	TokenReview     *TokenReview            `key:"token_review" doc:"Take tokens of a Kubernetes cluster, which is asked about each. Absent: none are taken."`
	AdminAddress    string                  `key:"admin_address" doc:"Address and port of profiles (net/http/pprof), /metrics, /livez and /readyz, for whoever can connect: there is neither TLS nor a token. Empty: off. See monitoring.md."`
	AdminRemote     bool                    `key:"admin_remote" default:"false" doc:"Allow an admin_address that other machines reach."`
	TLS             ServerTLS               `key:"tls" doc:"TLS of the API."`
	MaxRequestBytes Bytes                   `key:"max_request_bytes" default:"64MiB" min:"1KiB" max:"4GiB" doc:"Largest body of one request, a batch included."`
	Limits          ClientLimits            `key:"limits" doc:"What one client may do, so that one that has run wild leaves room for the others; see access.md. A change is taken over by a reload."`
	ShutdownGrace   time.Duration           `key:"shutdown_grace" default:"30s" min:"0s" max:"1h" doc:"How long calls in flight may take to finish when the daemon is told to stop."`
}

// ServerTLS is TLS of the API.
type ServerTLS struct {
	CertFile     string               `key:"cert_file" type:"path" doc:"PEM certificate chain; turns TLS on, together with key_file."`
	KeyFile      string               `key:"key_file" type:"path" doc:"PEM private key of cert_file."`
	ClientCAFile string               `key:"client_ca_file" type:"path" doc:"PEM certificates of those who sign client certificates; callers then must show one."`
	ClientAuth   string               `key:"client_auth" default:"required" oneof:"required|optional" doc:"optional: callers without a certificate are let in where they show a token."`
	Clients      map[string]TLSClient `key:"clients" doc:"Who may do what, by client certificate and by a name of your choice. Of several that fit, the first by name counts. Empty: with token_file or token_review, certificates let in and tokens say who it is; without, every certificate that client_ca_file signed may do everything."`
}

// Store is the outbox on disk.
type Store struct {
	Path         string `key:"path" type:"path" flag:"store" dynamic:"$STATE_DIRECTORY (systemd), else $XDG_STATE_HOME/pawl, else ~/.local/state/pawl, else /var/lib/pawl" doc:"Folder of the store. One process at a time."`
	ReserveBytes Bytes  `key:"reserve_bytes" default:"512MiB" min:"64MiB" max:"1TiB" doc:"Free space below which new work is refused (HTTP 507), so that what was accepted can still be delivered."`

	EncryptionKeyFile string `key:"encryption_key_file" type:"path" doc:"File with the key that the store is sealed with: 32 random bytes in base64, as openssl rand -base64 32 prints them. A store is sealed from the start or by way of a backup; see store.md. Empty: it is not sealed."`
}

// Log is the daemon's log.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug|info|warn|error" flag:"log-level" doc:"The least important lines that are written."`
	Format string `key:"format" default:"auto" oneof:"auto|text|json" flag:"log-format" doc:"auto: text on a terminal, else json."`
}

// Limits bound the whole daemon.
type Limits struct {
	MaxInFlight     int           `key:"max_in_flight" default:"4096" min:"1" max:"1000000" unit:"calls" doc:"Calls in flight over all sinks."`
	PayloadMaxBytes Bytes         `key:"payload_max_bytes" default:"512KiB" min:"1KiB" max:"64MiB" doc:"Largest payload of one resource."`
	OrderRetention  time.Duration `key:"order_retention" default:"24h" min:"1s" max:"8760h" doc:"How long a deleted resource's last source order is remembered, so that a late change is still refused as stale."`
	PluginMemory    Bytes         `key:"plugin_memory_max_bytes" default:"4GiB" min:"64MiB" max:"16TiB" doc:"Memory of all plugin instances of all sinks."`
	BatchMax        int           `key:"batch_max" default:"10000" min:"1" max:"1000000" unit:"items" doc:"Most items that are stored at once. A batch request may be longer: it is stored in several steps."`
}

// Metrics is the Prometheus endpoint.
type Metrics struct {
	Enabled bool `key:"enabled" default:"true" doc:"Serve /metrics at the API's address."`
}

// Wasm is how plugins are compiled.
type Wasm struct {
	CacheDir       string        `key:"cache_dir" type:"path" dynamic:"$CACHE_DIRECTORY (systemd), else $XDG_CACHE_HOME/pawl, else ~/.cache/pawl, else /var/cache/pawl; in it, wasm" doc:"Folder of compiled plugins, and of those from registries, for nobody else to read or write. It may be removed at any time; the next start takes longer and needs the registries."`
	StackMax       Bytes         `key:"stack_max_bytes" default:"16MiB" min:"64KiB" max:"64MiB" doc:"Stack of a plugin's calls that may be recursive, as estimated from above."`
	TableMax       int           `key:"table_elements_max" default:"1000000" min:"1" max:"100000000" unit:"elements" doc:"Elements of the tables of an instance together, of 8 bytes each (each table has an equal part), and of its element segments."`
	CompileMemory  Bytes         `key:"compile_memory_bytes" default:"1GiB" min:"64MiB" max:"1TiB" doc:"Memory of the process that compiles a plugin which is not trusted. Enforced on Linux."`
	CompileCPU     time.Duration `key:"compile_cpu" default:"1m" min:"1s" max:"1h" doc:"CPU time of that process, in whole seconds. Enforced on Linux."`
	CompileTimeout time.Duration `key:"compile_timeout" default:"2m" min:"1s" max:"1h" doc:"Longest time that compiling a plugin may take."`
}

// Plugin says where a wasm module comes from: exactly one of
// Path, Bundled and OCI is set.
type Plugin struct {
	Path    string     `key:"path" type:"path" doc:"The .wasm file."`
	Bundled string     `key:"bundled" doc:"Name of a plugin that comes with pawl."`
	OCI     string     `key:"oci" doc:"Plugin in an OCI registry, pinned: HOST/REPOSITORY@sha256:DIGEST, as pawl plugin push and pull print it. It is fetched at the first start with the credentials of docker login, and kept in wasm.cache_dir: later starts need no registry."`
	SHA256  string     `key:"sha256" doc:"Digest that the module must have, 64 hexadecimal digits; empty: any."`
	Trusted bool       `key:"trusted" default:"false" doc:"Compile the plugin in the daemon's own process. Others are compiled in a process with limits, since a hostile module can make a compiler take any time and memory; bundled ones are always trusted. It changes nothing about how the plugin is limited when it runs."`
	Limits  SinkLimits `key:"limits" inherits:"defaults" doc:"Limits of every sink of this plugin that does not set them itself."`
}

// Upstream is one address with its credentials, known to the host alone.
type Upstream struct {
	Kind                string        `key:"kind" default:"http" oneof:"http|kubernetes" doc:"What is there: an HTTP service, or the API server of a Kubernetes cluster."`
	Kubernetes          *Kubernetes   `key:"kubernetes" doc:"Of kind kubernetes: which cluster, as which user. Absent: the cluster that pawl runs in, as its pod's service account."`
	BaseURL             string        `key:"base_url" doc:"Needed for kind http. Where requests go: http or https, host, optional port and path. Plugins' paths are appended to it."`
	Protocol            string        `key:"protocol" default:"auto" oneof:"auto|http1|http2|h2c" doc:"auto: HTTP/2 where an https target offers it, else HTTP/1.1; http1 and http2: only that; h2c: HTTP/2 without TLS."`
	TLS                 *UpstreamTLS  `key:"tls" doc:"TLS to the target; absent: the system's certificate authorities."`
	Credentials         *Credentials  `key:"credentials" doc:"What the host adds to each request: bearer or basic, a header of its own, or that and one of the two."`
	Sign                *Sign         `key:"sign" doc:"How the host signs each request."`
	AllowedMethods      []string      `key:"allowed_methods" default:"GET,HEAD,POST,PUT,PATCH,DELETE" doc:"HTTP methods that plugins may use."`
	AllowedPathPrefixes []string      `key:"allowed_path_prefixes" dynamic:"every path" doc:"Paths below base_url that plugins may reach, matched at segment borders: /v1 allows /v1 and /v1/x, not /v10."`
	AllowedHeaders      []string      `key:"allowed_headers" doc:"Headers that plugins may set besides the usual ones. None that carries a credential."`
	RequestMaxBytes     Bytes         `key:"request_max_bytes" default:"4MiB" min:"1KiB" max:"256MiB" doc:"Largest body of a request."`
	ResponseMaxBytes    Bytes         `key:"response_max_bytes" default:"4MiB" min:"1KiB" max:"256MiB" doc:"Largest body of a response."`
	MaxConcurrent       int           `key:"max_concurrent" default:"10000" min:"1" max:"1000000" unit:"requests" doc:"Requests in flight, over all sinks that use this upstream."`
	Rate                float64       `key:"rate" default:"0" min:"0.001" max:"1000000" zero:"no limit" unit:"requests per second" doc:"Requests per second, over all sinks that use this upstream."`
	Timeout             time.Duration `key:"timeout" default:"30s" min:"100ms" max:"1h" doc:"Longest time for one request, waiting for its turn and its response included. A sink's timeout ends it sooner."`
	DialTimeout         time.Duration `key:"dial_timeout" default:"10s" min:"100ms" max:"1h" doc:"Longest time to connect, and again for the TLS handshake."`
}

// Kubernetes says where a cluster's address, certificate and credentials come from.
type Kubernetes struct {
	Kubeconfig string `key:"kubeconfig" type:"path" doc:"The kubeconfig file; it is read again when it changes. Empty: the service account of the pod that pawl runs in."`
	Context    string `key:"context" doc:"The kubeconfig's context; empty: its current one."`
}

// UpstreamTLS is TLS to a target.
type UpstreamTLS struct {
	CAFile             string `key:"ca_file" type:"path" doc:"PEM certificates to trust instead of the system's."`
	CertFile           string `key:"cert_file" type:"path" doc:"PEM client certificate, together with key_file."`
	KeyFile            string `key:"key_file" type:"path" doc:"PEM private key of cert_file."`
	ServerName         string `key:"server_name" doc:"Name that the target's certificate must have; empty: the host of base_url."`
	InsecureSkipVerify bool   `key:"insecure_skip_verify" default:"false" doc:"Trust any certificate. For tests only."`
}

// Credentials holds at least one way to authenticate, and not both Bearer and Basic.
type Credentials struct {
	Bearer *Secret           `key:"bearer" doc:"Authorization: Bearer, with this token."`
	Basic  *BasicCredential  `key:"basic" doc:"Authorization: Basic."`
	Header *HeaderCredential `key:"header" doc:"A header of its own, an API key say."`
}

// BasicCredential is HTTP basic authentication.
type BasicCredential struct {
	Username string `key:"username" required:"yes" doc:"The user's name."`
	Password Secret `key:"password" doc:"The password."`
}

// HeaderCredential is a secret in a header of the target's choice.
type HeaderCredential struct {
	Name   string `key:"name" required:"yes" doc:"The header's name."`
	Secret Secret `key:"secret" doc:"The header's value."`
}

// Sign holds the ways to sign requests.
type Sign struct {
	StandardWebhooks *StandardWebhooks `key:"standard_webhooks" doc:"Standard Webhooks: webhook-id, webhook-timestamp and webhook-signature (HMAC-SHA256)."`
}

// StandardWebhooks signs as standardwebhooks.com says.
type StandardWebhooks struct {
	Secret         Secret  `key:"secret" doc:"The signing secret, as whsec_ and base64."`
	PreviousSecret *Secret `key:"previous_secret" doc:"The one before, while it is being replaced: requests bear both signatures."`
}

// Secret says where a secret comes from: exactly one of the three is set.
type Secret struct {
	File  string    `key:"file" type:"path" doc:"File that holds the secret; newlines at its end are no part of it."`
	Env   string    `key:"env" doc:"Environment variable that holds it."`
	Value Sensitive `key:"value" doc:"The secret itself; a file or the environment is the better place."`
}

// Sink is one target.
type Sink struct {
	Plugin       string          `key:"plugin" required:"yes" doc:"Name of the plugin that talks to the target."`
	Upstreams    []string        `key:"upstreams" doc:"Names of the upstreams that the plugin may reach."`
	Config       json.RawMessage `key:"config" doc:"The plugin's own settings, handed to it as JSON. No place for credentials."`
	Sensitive    []string        `key:"sensitive" doc:"JSON pointers (/spec/password) of payload fields that are never shown."`
	Suspended    bool            `key:"suspended" default:"false" doc:"Hold every call, deletes included, until this is taken back; new work is still accepted."`
	SinkSettings `key:",inline" inherits:"defaults"`
}

// SinkSettings are the settings of a sink that the defaults block may give.
type SinkSettings struct {
	ConflictPolicy record.ConflictPolicy `key:"conflict_policy" default:"source-wins" oneof:"source-wins|target-wins|report-only" doc:"What to do where the target was changed by somebody else: apply again, accept it, or only report it."`
	DeletionPolicy record.DeletionPolicy `key:"deletion_policy" default:"delete" oneof:"delete|ack-then-delete|retain" doc:"What becomes of the target's object when its resource is deleted: delete it, store what is there and delete it, or leave it alone."`
	Direction      record.Direction      `key:"direction" default:"outbound" oneof:"outbound|inbound|both" doc:"Which way resources that say nothing themselves are kept in sync: what is desired goes to the target; what the target has is taken in and nothing is sent; or each side's changes go to the other, and conflict_policy decides where both changed. The last two need a plugin that reports content (reports_content in pawl plugin inspect)."`
	PollInterval   time.Duration         `key:"poll_interval" default:"1m" min:"1s" max:"8760h" doc:"How often the target is asked what changed there, for resources of direction inbound and both: by one poll where the plugin can poll, else by a look at each, jittered."`
	MaxInFlight    int                   `key:"max_in_flight" default:"64" min:"1" max:"100000" unit:"calls" doc:"Calls in flight. A batch is one."`
	Rate           float64               `key:"rate" default:"0" min:"0.001" max:"1000000" zero:"no limit" unit:"calls per second" doc:"Calls per second."`
	Burst          int                   `key:"burst" default:"0" min:"1" max:"1000000" zero:"one second of rate, at least 1" unit:"calls" doc:"Calls that may go at once before rate holds them back."`
	Timeout        time.Duration         `key:"timeout" default:"30s" min:"100ms" max:"1h" doc:"Longest time for one call, from its start; waiting for its turn does not count."`
	DriftInterval  time.Duration         `key:"drift_interval" default:"10m" min:"1s" max:"8760h" zero:"off" doc:"How often an acked resource is looked at again."`
	ReportInterval time.Duration         `key:"report_interval" default:"10m" min:"1s" max:"8760h" doc:"How often a resource in phase Drifted is looked at again."`
	Retry          Retry                 `key:"retry" doc:"When a resource that failed is tried again."`
	Breaker        Breaker               `key:"breaker" doc:"When a target counts as unreachable, and how it is probed then."`
	StartupCheck   bool                  `key:"startup_check" default:"true" doc:"Look at all resources again after a start."`
	StartupRate    float64               `key:"startup_rate" default:"100" min:"0.001" max:"1000000" unit:"calls per second" doc:"Pace of that; rate holds too."`
	FightsPerHour  int                   `key:"fights_per_hour" default:"5" min:"1" max:"10000" unit:"corrections per hour" doc:"More corrections of drift than this, for one resource, count as a fight with somebody: it is backed off to retry.stall and told loudly."`
	Limits         SinkLimits            `key:"limits" doc:"What a sink's plugin may use."`
}

// SinkLimits bound what the plugin of one sink may use. A plugin may have them
// too, for all of its sinks.
type SinkLimits struct {
	EntryCPU            time.Duration `key:"entry_cpu" default:"2s" min:"10ms" max:"10m" doc:"CPU time of one entry of the plugin: from when it is called until it returns or waits for I/O. It is stopped at that, and its instance discarded. A collection of its garbage needs to fit."`
	CPUShare            float64       `key:"cpu_share" default:"0.25" min:"0.01" max:"1024" unit:"processors" doc:"How much of one processor the plugin may use while other sinks' plugins want to run too. Idle processors are free for all."`
	MemoryMaxBytes      Bytes         `key:"memory_max_bytes" default:"256MiB" min:"1MiB" max:"4GiB" doc:"Memory of one plugin instance."`
	MemoryTotalMaxBytes Bytes         `key:"memory_total_max_bytes" default:"0B" min:"1MiB" max:"1TiB" zero:"four times memory_max_bytes" doc:"Memory of all instances of a sink's plugin."`
	InstancesMax        int           `key:"instances_max" default:"16" min:"1" max:"1024" unit:"instances" doc:"Plugin instances. One that can park its calls serves thousands; others serve one call each."`
	IdleTimeout         time.Duration `key:"idle_timeout" default:"1m" min:"10ms" max:"24h" doc:"How long an instance without calls is kept."`
	StartTimeout        time.Duration `key:"start_timeout" default:"30s" min:"100ms" max:"1h" doc:"Longest time until a new instance is configured."`
	InFlightMaxBytes    Bytes         `key:"in_flight_max_bytes" default:"64MiB" min:"64KiB" max:"64GiB" doc:"Payloads and responses that wait for the plugin in the host; requests that wait for an upstream may take twice as much."`
	MessageMaxBytes     Bytes         `key:"message_max_bytes" default:"0B" min:"64KiB" max:"1GiB" zero:"4 MiB, or as much as a request to the sink's upstreams takes" doc:"Largest message from the plugin: a result, or a request to an upstream."`
	CallIOsMax          int           `key:"call_ios_max" default:"16" min:"1" max:"1024" unit:"requests" doc:"Requests and sleeps that one call may have under way."`
	IOsMax              int           `key:"ios_max" default:"10000" min:"1" max:"1000000" unit:"requests" doc:"Requests and sleeps that all calls of a sink may have under way."`
	LogLines            int           `key:"log_lines" default:"50" min:"1" max:"100000" unit:"lines per second" doc:"Log lines from the plugin; more are dropped and counted."`
	LogBytes            Bytes         `key:"log_bytes" default:"64KiB" min:"4KiB" max:"64MiB" doc:"Bytes of log per second from the plugin; more are dropped and counted."`
}

// Retry is the backoff of one resource.
type Retry struct {
	Base        time.Duration `key:"base" default:"2s" min:"10ms" max:"1h" doc:"Wait after the first failure; doubled after each further one, jittered."`
	Max         time.Duration `key:"max" default:"5m" min:"10ms" max:"24h" doc:"Longest such wait."`
	MaxAttempts int           `key:"max_attempts" default:"5" min:"1" max:"1000" unit:"attempts" doc:"Failures after which the resource is Stalled."`
	Stall       time.Duration `key:"stall" default:"5m" min:"1s" max:"24h" doc:"Wait before a Stalled resource is tried again."`
}

// Breaker is the circuit breaker of a sink.
type Breaker struct {
	After     int           `key:"after" default:"5" min:"1" max:"1000" unit:"failures" doc:"Consecutive unanswered calls, of distinct resources, that open it."`
	ProbeBase time.Duration `key:"probe_base" default:"2s" min:"10ms" max:"1h" doc:"Wait before the first probe; doubled after each further one."`
	ProbeMax  time.Duration `key:"probe_max" default:"1m" min:"10ms" max:"24h" doc:"Longest such wait."`
}
