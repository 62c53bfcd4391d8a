package config

// SourceKube is objects of one kind in a cluster.
type SourceKube struct {
	Kubernetes    Kubernetes `key:"kubernetes" doc:"Which cluster, as which user. Absent: the cluster that pawl runs in, as its pod's service account."`
	APIVersion    string     `key:"api_version" required:"yes" doc:"As in manifests: v1, apps/v1."`
	Kind          string     `key:"kind" required:"yes" doc:"As in manifests: ConfigMap, Deployment."`
	Namespaces    []string   `key:"namespaces" doc:"Only objects of these namespaces; the user needs rights in them alone. Empty: all."`
	LabelSelector string     `key:"label_selector" doc:"Only objects with such labels, as kubectl takes it: app=web,tier!=test. Empty: all."`
	FieldSelector string     `key:"field_selector" doc:"Only objects with such fields, as kubectl takes it: type=Opaque. Empty: all."`
	Sink          string     `key:"sink" required:"yes" doc:"The sink that the resources are for."`
	Key           string     `key:"key" doc:"The resource's key, with fields of the object in it: {{.metadata.name}}, or {{.metadata.labels[\"app.kubernetes.io/name\"]}}. Empty: {{.metadata.namespace}}/{{.metadata.name}}, or the name alone for what has no namespace."`
	Payload       string     `key:"payload" doc:"JSON pointer (/data, /spec) to the part of the object that is the payload. Empty: the whole object, without status and what else belongs to its cluster."`
}

// SourceStateSync is the StateSyncs of a cluster.
type SourceStateSync struct {
	Kubernetes      Kubernetes `key:"kubernetes" doc:"Which cluster, as which user. Absent: the cluster that pawl runs in, as its pod's service account."`
	Namespaces      []string   `key:"namespaces" doc:"Only StateSyncs of these namespaces; the user needs rights in them alone. Empty: all."`
	Sinks           []string   `key:"sinks" doc:"The sinks that a StateSync may name. Empty: all."`
	WritesPerSecond float64    `key:"writes_per_second" default:"100" min:"1" max:"10000" unit:"writes per second" doc:"Requests that change StateSyncs (status, finalizer), and events. What changes faster is written in its newest form."`
}
