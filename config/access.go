package config

import "time"

// Grant is one scope somewhere.
type Grant struct {
	Scope  string   `key:"scope" required:"yes" oneof:"read|write|admin" doc:"What is allowed; each includes those before it. See access.md."`
	Sinks  []string `key:"sinks" doc:"The sinks that it holds for. Empty: all, and with admin the daemon itself."`
	Prefix string   `key:"prefix" doc:"What keys start with that it holds for. Empty: all keys."`
}

// Permissions are what callers may do who are told apart by something other than a
// token of Pawl's own.
type Permissions struct {
	Grants  []Grant  `key:"grants" required:"yes" min:"1" max:"64" unit:"grants" doc:"What it may do. Grants add up."`
	Senders []string `key:"senders" doc:"Names of pawls that it may send as, to a source of kind pawl; * is every one. None: it sends as nobody."`
}

// TLSClient is callers with certain client certificates.
type TLSClient struct {
	CommonNames []string `key:"common_names" doc:"Common names of certificates' subjects."`
	DNSNames    []string `key:"dns_names" doc:"DNS names among their subject alternative names."`
	URIs        []string `key:"uris" doc:"URIs among them, as SPIFFE has."`
	Emails      []string `key:"emails" doc:"Email addresses among them."`
	Permissions `key:",inline"`
}

// SocketClient is callers who are certain users of the machine.
type SocketClient struct {
	Users       []string `key:"users" doc:"Users, by name or number."`
	Groups      []string `key:"groups" doc:"Groups, by name or number; who has one of them is meant."`
	Permissions `key:",inline"`
}

// TokenReview is the Kubernetes cluster that is asked about callers' tokens.
type TokenReview struct {
	Kubeconfig string                  `key:"kubeconfig" type:"path" doc:"The kubeconfig of a user that may create tokenreviews, as the ClusterRole system:auth-delegator allows; it is read again when it changes. Empty: the service account of the pod that pawl runs in."`
	Context    string                  `key:"context" doc:"The kubeconfig's context; empty: its current one."`
	Audiences  []string                `key:"audiences" doc:"A token has to be for one of these. Empty: for the API server itself, which then could be called with it by whoever gets hold of it; name one of pawl's own."`
	Cache      time.Duration           `key:"cache" default:"10s" min:"1s" max:"5m" doc:"How long an answer counts, and with it a token that was withdrawn meanwhile."`
	Timeout    time.Duration           `key:"timeout" default:"5s" min:"100ms" max:"1m" doc:"Longest time for one question. Where there is no answer, the caller gets a 503."`
	Clients    map[string]ReviewClient `key:"clients" required:"yes" doc:"Who may do what, by a name of your choice. Of several that fit, the first by name counts."`
}

// ReviewClient is callers who are certain users of the cluster.
type ReviewClient struct {
	Users       []string `key:"users" doc:"Users as the cluster knows them: system:serviceaccount:NAMESPACE:NAME for a service account."`
	Groups      []string `key:"groups" doc:"Groups; system:serviceaccounts:NAMESPACE is all service accounts of a namespace."`
	Permissions `key:",inline"`
}

// ClientLimits are what one client of the API may do. A client is a token, certificate or
// user of a cluster, by name; at the unix socket, a user; else an address.
type ClientLimits struct {
	RequestsPerSecond int   `key:"requests_per_second" default:"10000" min:"0" max:"1000000" unit:"requests" doc:"Requests that a client may send all the time. A batch is one. 0: no limit."`
	RequestsBurst     int   `key:"requests_burst" default:"20000" min:"1" max:"10000000" unit:"requests" doc:"Requests that it may send at once before requests_per_second holds it back."`
	Watches           int   `key:"watches" default:"16384" min:"0" max:"1000000" unit:"watches" doc:"Watches, and waits for an outcome, that it may have open. 0: no limit."`
	BodyBytes         Bytes `key:"body_bytes" default:"256MiB" min:"0B" max:"1TiB" doc:"Bodies of its requests under way, together; max_request_bytes bounds each. A body alone is always taken. 0: no limit."`
}
