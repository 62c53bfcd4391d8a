package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// kubeFlying is how many writes are under way at a time, ours and the client's.
const kubeFlying = 32

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// kubeBench is one API server, a client of it, and the adapter.
type kubeBench struct {
	*report
	server *servers.Kube
	client dynamic.Interface
	plugin *wasmhost.Plugin
	idled  bool // it was measured that nothing is written which is as desired
}

// benchKube brings ConfigMaps to a real API server, through Pawl and by client-go
// with the same server-side applies, by turns; then it looks that nothing is
// written that is as desired.
func benchKube(r *report) error {
	n, rounds := 5000, 3
	if r.short {
		n, rounds = 1000, 1
	}
	if err := benchGuest(r, "kube"); err != nil {
		return err
	}
	server, err := servers.StartKube(r.ctx, r.dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	c, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		return err
	}
	c.QPS = -1 // client-go holds itself back by default
	b := &kubeBench{report: r, server: server}
	if b.client, err = dynamic.NewForConfig(c); err != nil {
		return err
	}
	host, err := wasmhost.New(r.ctx, wasmhost.Options{})
	if err != nil {
		return err
	}
	wasm, err := bundled.Plugin("kube")
	if err != nil {
		return err
	}
	if b.plugin, err = host.LoadTrusted(r.ctx, wasm, "kube"); err != nil {
		return err
	}
	defer b.plugin.Close(r.ctx)

	runs := 0
	namespace := func() (string, error) {
		runs++
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "run" + strconv.Itoa(runs)}}}
		_, err := b.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(r.ctx, o, metav1.CreateOptions{})
		return o.GetName(), err
	}
	in := func(do func(ns string, n int) (float64, error)) func() (float64, error) {
		return func() (float64, error) {
			ns, err := namespace()
			if err != nil {
				return 0, err
			}
			return do(ns, n)
		}
	}
	// A first turn warms the server up.
	if _, err := b.direct("default", n/10); err != nil {
		return err
	}
	rate, err := interleave(rounds, in(b.direct), in(b.through))
	if err != nil {
		return err
	}
	r.line("ConfigMaps/s: client-go %v; through Pawl %v", rate[0], rate[1])
	r.atLeast("through Pawl ÷ client-go", rate[1].over(rate[0]).median(), 0.7, " ×")
	return nil
}

func benchConfigMap(ns string, i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "c" + strconv.Itoa(i), "namespace": ns},
		"data":     map[string]any{"n": strconv.Itoa(i), "text": filler[:512]}}}
}

// direct applies n ConfigMaps by client-go, and returns how many a second.
func (b *kubeBench) direct(ns string, n int) (float64, error) {
	return times(kubeFlying, n, func(i int) error {
		o := benchConfigMap(ns, i)
		_, err := b.client.Resource(configMaps).Namespace(ns).Apply(b.ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "direct", Force: true})
		return err
	})
}

// engine opens an engine over the adapter, with its store in dir; none of a drift
// interval is the default.
func (b *kubeBench) engine(dir string, drift time.Duration) (*engine.Engine, *looked, func(), error) {
	cluster, err := kube.Open(kube.Options{Kubeconfig: b.server.Kubeconfig})
	if err != nil {
		return nil, nil, nil, err
	}
	up, err := upstream.Open(upstream.Config{Name: "cluster", Kind: kube.Kind, BaseURL: cluster.BaseURL(), MaxConcurrent: kubeFlying},
		upstream.Options{RoundTripper: cluster, Admit: kube.Admit})
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := b.plugin.Open(b.ctx, wasmhost.SinkConfig{Name: sinkName, Upstreams: []wasmhost.Upstream{up}})
	if err != nil {
		return nil, nil, nil, err
	}
	looks := &looked{Sink: s}
	eng, err := open(b.ctx, dir, engine.SinkOptions{Name: sinkName, Sink: looks, MaxInFlight: 4 * kubeFlying, DriftInterval: drift})
	if err != nil {
		return nil, nil, nil, err
	}
	return eng, looks, func() {
		_ = eng.Close(b.ctx)
		up.Close()
	}, nil
}

// through puts n ConfigMaps and waits until all are acknowledged; it returns how
// many a second.
func (b *kubeBench) through(ns string, n int) (float64, error) {
	dir := filepath.Join(b.dir, "store-"+ns)
	eng, looks, stop, err := b.engine(dir, 0)
	if err != nil {
		return 0, err
	}
	puts := make([]engine.Put, n)
	for i := range puts {
		payload, err := benchConfigMap(ns, i).MarshalJSON()
		if err != nil {
			return 0, err
		}
		puts[i] = engine.Put{Key: record.Key{Sink: sinkName, Name: fmt.Sprintf("v1/ConfigMap/%s/c%d", ns, i)}, Payload: payload}
	}
	began := time.Now()
	if _, err := eng.PutBatch(b.ctx, puts); err != nil {
		return 0, err
	}
	for countOf(eng, record.AckedPhase) < n {
		time.Sleep(2 * time.Millisecond)
	}
	took := time.Since(began).Seconds()
	st := looks.Stats()
	b.under("memory of an instance", float64(st.MemoryBytes)/(1<<20)/float64(max(st.Instances, 1)), 12, " MiB")
	stop()
	if b.idled { // once is enough
		return float64(n) / took, nil
	}
	b.idled = true
	return float64(n) / took, b.idle(ns, dir, puts)
}

// idle puts what is there again, lets every object be looked at twice, and counts
// the objects that were written.
func (b *kubeBench) idle(ns, dir string, puts []engine.Put) error {
	before, err := b.versions(ns)
	if err != nil {
		return err
	}
	eng, looks, stop, err := b.engine(dir, time.Second)
	if err != nil {
		return err
	}
	defer stop()
	if _, err := eng.PutBatch(b.ctx, puts); err != nil {
		return err
	}
	for looks.n.Load() < 2*int64(len(puts)) {
		time.Sleep(10 * time.Millisecond)
	}
	after, err := b.versions(ns)
	if err != nil {
		return err
	}
	written := 0
	for name, v := range after {
		if before[name] != v {
			written++
		}
	}
	b.under("objects written by the same again and two looks at each", float64(written), 1, "")
	return nil
}

func (b *kubeBench) versions(ns string) (map[string]string, error) {
	list, err := b.client.Resource(configMaps).Namespace(ns).List(b.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
	}
	return out, nil
}
