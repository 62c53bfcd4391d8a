package daemon

import (
	"encoding/json"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/kube"
	kubesource "github.com/pawlsync/pawl/internal/source/kube"
	"github.com/pawlsync/pawl/internal/source/statesync"
)

// openKubeSource makes a source of objects of one kind.
func openKubeSource(k *config.SourceKube, o Options) (*kubesource.Source, error) {
	cluster, err := openSourceCluster(k.Kubernetes, o)
	if err != nil {
		return nil, err
	}
	return kubesource.New(kubesource.Options{
		Server: cluster, APIVersion: k.APIVersion, Kind: k.Kind, Namespaces: k.Namespaces,
		Labels: k.LabelSelector, Fields: k.FieldSelector, Sink: k.Sink, Key: k.Key, Payload: k.Payload,
	})
}

// openStateSyncSource makes a source of StateSyncs.
func openStateSyncSource(name string, c *config.Config, o Options, running func() *engine.Engine) (*statesync.Source, error) {
	k := c.Sources[name].StateSync
	cluster, err := openSourceCluster(k.Kubernetes, o)
	if err != nil {
		return nil, err
	}
	masks := map[string]api.Mask{}
	for sink, s := range c.Sinks {
		if masks[sink], err = api.NewMask(s.Sensitive); err != nil {
			return nil, err
		}
	}
	show := func(sink string, content []byte) json.RawMessage {
		mask, configured := masks[sink]
		if !configured { // nobody says any more what was sensitive there
			mask = api.MaskWhole()
		}
		shown, _, _ := mask.Show(content)
		return shown
	}
	return statesync.New(statesync.Options{
		Name: name, Server: cluster, Engine: func() statesync.Engine { return running() },
		Namespaces: k.Namespaces, Sinks: k.Sinks, WritesPerSecond: k.WritesPerSecond, Show: show, Logger: o.Logger,
	})
}

func openSourceCluster(k config.Kubernetes, o Options) (*kube.Cluster, error) {
	return kube.Open(kube.Options{Kubeconfig: k.Kubeconfig, Context: k.Context, Logger: o.Logger})
}
