package main

import (
	"github.com/pawlsync/pawl/plugins/internal/conf"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// What two resources that prune must not share.
const (
	scopeObject   = "object"   // the object
	scopeRelation = "relation" // the object and the relation, of which each names one
)

// Defaults, and what SpiceDB itself takes at most unless told otherwise.
const (
	defaultUpdates = 1000
	defaultPage    = 1000
	defaultBatch   = 200
	defaultTerms   = 1000
)

// config is a sink's config, checked.
type config struct {
	upstream   pawl.UpstreamRef
	prune      bool   // resources that do not say
	pruneScope string // scopeObject or scopeRelation
	updates    int    // rows of one write at most
	page       int    // rows of one read at most
	batch      int    // resources of one batch at most

	sagas        bool   // it takes part in them
	lockType     string // of locks and marks
	workflowType string // of who holds them
	terms        int    // preconditions of one write at most
}

func readConfig(c pawl.Config) (*config, error) {
	root, err := conf.Parse(c.JSON)
	if err != nil {
		return nil, err
	}
	cfg := &config{prune: true, pruneScope: scopeObject, updates: defaultUpdates, page: defaultPage, batch: defaultBatch,
		lockType: "lock", workflowType: "workflow", terms: defaultTerms}
	upstream := ""
	root.String("upstream", &upstream)
	root.Bool("prune", &cfg.prune)
	root.Choice("prune_scope", &cfg.pruneScope, scopeObject, scopeRelation)
	root.Count("update_limit", &cfg.updates)
	root.Count("read_page", &cfg.page)
	root.Count("batch_max", &cfg.batch)
	root.Bool("sagas", &cfg.sagas)
	root.Count("precondition_limit", &cfg.terms)
	for key, name := range map[string]*string{"saga_lock_type": &cfg.lockType, "saga_workflow_type": &cfg.workflowType} {
		if root.String(key, name); !isTypeName(*name) {
			root.Fail(key, "the name of a definition is expected: "+lowerCase)
		}
	}
	if cfg.batch > 10_000 {
		root.Fail("batch_max", "10000 is the most")
	}
	if err := root.Done(); err != nil {
		return nil, err
	}
	cfg.upstream, err = conf.Upstream(upstream, c.Upstreams)
	return cfg, err
}

// manifest is what this sink can do.
func (cfg *config) manifest() *pawl.Manifest {
	m := manifest()
	m.ConfigSchema, m.PayloadSchema = "", "" // told once, by describe
	m.BatchMax = uint32(cfg.batch)
	if cfg.sagas {
		m.Ops = append(m.Ops, pawl.OpUnlock, pawl.OpRestore)
		m.Mark, m.Lock, m.Undoable = true, true, []pawl.Op{pawl.OpApply, pawl.OpDelete}
	}
	return &m
}
