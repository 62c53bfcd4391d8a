package api

// Identity is a caller, as the daemon knows them.
type Identity struct {
	Name    string   `json:"name" doc:"Their name."`
	Kind    string   `json:"kind" doc:"How the daemon knows it: token, certificate, peer, …; local where nobody is asked who they are."`
	Grants  []Grant  `json:"grants" doc:"What they may do; grants add up."`
	Senders []string `json:"senders,omitempty" doc:"The names under which they may send as another pawl; * stands for every one."`
}

// Grant is one scope somewhere.
type Grant struct {
	Scope  string   `json:"scope" enum:"read,write,admin" doc:"Each includes those before it."`
	Sinks  []string `json:"sinks,omitempty" doc:"Where it holds; absent: at every sink."`
	Prefix string   `json:"prefix,omitempty" doc:"What keys start with that it holds for; absent: every key."`
}
