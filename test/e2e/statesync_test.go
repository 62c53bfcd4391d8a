package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Most of these tests wait most of their time, so that they run beside one another,
// each with a daemon of its own that looks at one namespace. Those of the second list
// change what all have: the CRD, the API server.
func TestStateSync(t *testing.T) {
	s := newStage(t)
	type test struct {
		name string
		run  func(*stage, *testing.T)
	}
	t.Run("Beside", func(t *testing.T) {
		for _, test := range []test{
			{"ThroughItsLife", (*stage).syncLife},
			{"DriftAndSuspension", (*stage).syncDrift},
			{"WhatIsRefused", (*stage).syncRefusals},
			{"DirectionsInbound", (*stage).syncInbound},
			{"DirectionsBoth", (*stage).syncBoth},
			{"PayloadsFromElsewhere", (*stage).syncPayloads},
			{"DeletionUnderEachPolicy", (*stage).syncDeletions},
			{"TheFinalizerStaysWhileTheTargetIsDown", (*stage).syncOwed},
			{"TheFuseHoldsMassDeletions", (*stage).syncFuse},
			{"RightsTakenAwayAndGivenBack", (*stage).syncRights},
			{"KubeSourceByLabel", (*stage).kubeSource},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(s, t)
			})
		}
	})
	for _, test := range []test{
		{"TheCRDIsRemoved", (*stage).syncCRDRemoved},
		{"TwoThousand", (*stage).syncMany},
		{"TheServerDiesUnderLoad", (*stage).syncServerDies},
		{"WhatVanishedUnseen", (*stage).kubeSourceExpired},
		{"TheCRDIsUpgraded", (*stage).syncUpgrade},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(s, t) })
	}
}

func (s *stage) syncLife(t *testing.T) {
	s.namespace(t, "life")
	shop := s.shop(t)
	k := s.keeper(t, shop, s.statesync("life", ""))
	s.kubectl(t, "-n", "life", "apply", "-f", "../../examples/sources/statesync/statesync.yaml")
	s.wait(t, "life", "greeting", "Acked")
	s.refusedAs(t, "life", "account", "PayloadNotFound", "Secret life/ci-account")
	shop.has(t, "life/greeting", `{"text":"hello"}`)
	path := syncPath("life", "greeting")
	o := s.get(t, path)
	if o.at("status", "phase") != "Acked" || o.at("status", "desiredHash") == nil || o.at("status", "acked", "hash") != o.at("status", "desiredHash") {
		t.Errorf("status: %v", o["status"])
	}
	if out := s.kubectl(t, "-n", "life", "get", "statesyncs"); !strings.Contains(out, "PHASE") || !strings.Contains(out, "web") || !strings.Contains(out, "Acked") {
		t.Errorf("kubectl get prints:\n%s", out)
	}

	// A change is acked as the change that it is: wait looks at the generation.
	s.edit(t, path, `{"spec":{"payload":{"text":"goodbye"}}}`)
	s.wait(t, "life", "greeting", "Acked")
	shop.has(t, "life/greeting", `{"text":"goodbye"}`)

	k.rescan(t, "team")
	s.quiet(t, "life", "greeting", shop)

	s.remove(t, path)
	s.eventuallyGone(t, path)
	shop.has(t, "life/greeting", "")
	if out := s.kubectl(t, "-n", "life", "get", "events"); !strings.Contains(out, "Acked") {
		t.Errorf("events:\n%s", out)
	}
}

// quiet checks that to look at what is as desired writes nothing to its StateSync.
func (s *stage) quiet(t *testing.T, ns, name string, at *shop) {
	t.Helper()
	look := func() {
		t.Helper()
		before := at.requests(t, ns+"/"+name)
		eventually(t, "the target is looked at", func() bool { return at.requests(t, ns+"/"+name) >= before+3 })
	}
	look() // the first look after an ack is news
	version := s.get(t, syncPath(ns, name)).version()
	look()
	if o := s.get(t, syncPath(ns, name)); o.version() != version {
		t.Errorf("the StateSync was written though nothing has changed: %s, then %s\n%v", version, o.version(), o["status"])
	}
}

func (s *stage) syncDrift(t *testing.T) {
	s.namespace(t, "drift")
	shop := s.shop(t)
	s.keeper(t, shop, s.statesync("drift", ""))
	s.sync(t, "drift", "d", `"sink":"web","payload":{"a":1}`) // ReportOnly, Retain
	s.wait(t, "drift", "d", "Acked")
	shop.put(t, "drift/d", `{"a":2}`)
	s.wait(t, "drift", "d", "Drifted")
	shop.has(t, "drift/d", `{"a":2}`)
	path := syncPath("drift", "d")
	if o := s.get(t, path); o.at("status", "phase") != "Drifted" {
		t.Errorf("status: %v", o["status"])
	}
	s.edit(t, path, `{"spec":{"conflictPolicy":"SourceWins"}}`)
	s.wait(t, "drift", "d", "Acked")
	s.wait(t, "drift", "d", "Drifted=False")
	shop.has(t, "drift/d", `{"a":1}`)

	s.edit(t, path, `{"spec":{"suspend":true,"payload":{"a":3}}}`)
	s.wait(t, "drift", "d", "Suspended")
	shop.has(t, "drift/d", `{"a":1}`)
	s.edit(t, path, `{"spec":{"suspend":false}}`)
	s.wait(t, "drift", "d", "Acked")
	shop.has(t, "drift/d", `{"a":3}`)
	eventually(t, "it is suspended no more", func() bool { return s.get(t, path).condition("Suspended") == nil })
}

// refusedAs waits for a StateSync that was not accepted.
func (s *stage) refusedAs(t *testing.T, ns, name, reason, words string) {
	t.Helper()
	s.wait(t, ns, name, "Accepted=False")
	c := s.get(t, syncPath(ns, name)).condition("Accepted")
	if message, _ := c["message"].(string); c["reason"] != reason || !strings.Contains(message, words) {
		t.Errorf("%s: %v, want %s with %q", name, c, reason, words)
	}
}

func (s *stage) syncRefusals(t *testing.T) {
	s.namespace(t, "refused")
	shop := s.shop(t)
	s.keeper(t, shop, s.statesync("refused", "")+"  few: {statesync: {kubernetes: {kubeconfig: \""+s.Kubeconfig+"\"}, namespaces: [elsewhere], sinks: [web]}}\n")
	for spec, words := range map[string]string{
		`"sink":"web"`: "give payload or payloadFrom",
		`"sink":"web","payload":{},"payloadFrom":{"secretKeyRef":{"name":"a","key":"b"}}`: "not both",
		`"sink":"web","payloadFrom":{}`:                               "exactly one of configMapKeyRef and secretKeyRef",
		`"sink":"web","payload":{},"deletionPolicy":"x"`:              "deletionPolicy",
		`"sink":"web","payload":{},"retry":{"base":"2h"}`:             "use 10ms to 1h",
		`"sink":"web","payload":{},"retry":{"max":"25h"}`:             "use 10ms to 24h",
		`"sink":"web","payload":{},"retry":{"stall":"1ms"}`:           "use 1s to 24h",
		`"sink":"web","payload":{},"retry":{"base":"2m","max":"60s"}`: "base is longer than max",
		`"sink":"web","payload":{},"retry":{"base":"soon"}`:           "spec.retry.base",
		`"sink":"web","payload":{},"retry":{"maxAttempts":0}`:         "spec.retry.maxAttempts",
		`"sink":"web","payload":{},"idempotencyKey":" a"`:             "spec.idempotencyKey",
	} {
		status, o := s.call(t, "POST", syncsPath+"refused/statesyncs", "application/json", syncBody("refused", "bad", spec))
		if message, _ := o["message"].(string); status != 422 || !strings.Contains(message, words) {
			t.Errorf("%s: %d %v, want words %q", spec, status, message, words)
		}
	}
	s.sync(t, "refused", "first", `"sink":"web","key":"one","payload":{"a":1}`)
	s.wait(t, "refused", "first", "Acked")
	for patch, words := range map[string]string{
		`{"spec":{"sink":"other"}}`: "sink can't be changed",
		`{"spec":{"key":"other"}}`:  "key can't be changed",
		`{"spec":{"key":null}}`:     "key can't be changed",
	} {
		status, o := s.call(t, "PATCH", syncPath("refused", "first"), "application/merge-patch+json", patch)
		if message, _ := o["message"].(string); status != 422 || !strings.Contains(message, words) {
			t.Errorf("%s: %d %v, want words %q", patch, status, message, words)
		}
	}

	s.sync(t, "refused", "keyed", `"sink":"web","key":"keyed","payload":{"a":1},"retry":{"base":"1s","max":"1m30s","maxAttempts":3,"stall":"1h"},"idempotencyKey":"order-17"`)
	s.wait(t, "refused", "keyed", "Acked")
	if status, o := s.call(t, "PATCH", syncPath("refused", "keyed"), "application/merge-patch+json", `{"spec":{"payload":{"a":2}}}`); status != 200 {
		t.Fatalf("%d %v", status, o)
	}
	s.refusedAs(t, "refused", "keyed", "IdempotencyKeyUsed", "its idempotency key did not")
	shop.has(t, "keyed", `{"a":1}`)

	s.sync(t, "refused", "nowhere", `"sink":"wep","payload":{"a":1}`)
	s.refusedAs(t, "refused", "nowhere", "UnknownSink", "wep")
	s.sync(t, "refused", "second", `"sink":"web","key":"one","payload":{"a":2}`)
	s.refusedAs(t, "refused", "second", "KeyTaken", "StateSync refused/first")
	shop.has(t, "one", `{"a":1}`)

	// Nothing is owed for what was refused, and what another has stays.
	for _, name := range []string{"nowhere", "second"} {
		s.remove(t, syncPath("refused", name))
		s.eventuallyGone(t, syncPath("refused", name))
	}
	shop.has(t, "one", `{"a":1}`)

	// An order that is overtaken is refused.
	s.sync(t, "refused", "ordered", `"sink":"web","payload":{"a":7},"source":{"order":7}`)
	s.wait(t, "refused", "ordered", "Acked")
	s.edit(t, syncPath("refused", "ordered"), `{"spec":{"payload":{"a":6},"source":{"order":6}}}`)
	s.refusedAs(t, "refused", "ordered", "Stale", "")
	shop.has(t, "refused/ordered", `{"a":7}`)

	// What another source owns is refused, by its name.
	s.namespace(t, "elsewhere")
	s.sync(t, "elsewhere", "thief", `"sink":"web","key":"one","payload":{"a":9}`)
	s.refusedAs(t, "elsewhere", "thief", "Owned", `"team"`)
	s.remove(t, syncPath("elsewhere", "thief"))
	s.eventuallyGone(t, syncPath("elsewhere", "thief"))
	s.sync(t, "elsewhere", "far", `"sink":"cluster","payload":{"a":9}`)
	s.refusedAs(t, "elsewhere", "far", "SinkNotAllowed", "web")
	shop.has(t, "one", `{"a":1}`)
}

func (s *stage) syncPayloads(t *testing.T) {
	s.namespace(t, "payloads")
	shop := s.shop(t)
	s.keeper(t, shop, s.statesync("payloads", ""))
	s.sync(t, "payloads", "conf", `"sink":"web","conflictPolicy":"SourceWins","payloadFrom":{"configMapKeyRef":{"name":"conf","key":"state"}}`)
	s.refusedAs(t, "payloads", "conf", "PayloadNotFound", "ConfigMap payloads/conf")
	s.create(t, "/api/v1/namespaces/payloads/configmaps", configMap("payloads", "conf", `{"state":"{\"a\":1}"}`))
	s.wait(t, "payloads", "conf", "Acked")
	shop.has(t, "payloads/conf", `{"a":1}`)
	s.edit(t, configMapPath("payloads", "conf"), `{"data":{"state":"{\"a\":2}"}}`)
	eventually(t, "the change of the ConfigMap arrives", func() bool { return shop.object(t, "payloads/conf") == `{"a":2}` })
	s.wait(t, "payloads", "conf", "Acked")

	// A ConfigMap that is gone deletes nothing.
	s.remove(t, configMapPath("payloads", "conf"))
	s.refusedAs(t, "payloads", "conf", "PayloadNotFound", "does not exist")
	shop.has(t, "payloads/conf", `{"a":2}`)
	if o := s.get(t, syncPath("payloads", "conf")); o.at("status", "phase") != "Acked" {
		t.Errorf("status: %v", o["status"])
	}

	s.create(t, "/api/v1/namespaces/payloads/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"payloads","name":"s"},"stringData":{"state":"{\"hush\":\"quiet\"}"}}`)
	s.sync(t, "payloads", "secret", `"sink":"web","payloadFrom":{"secretKeyRef":{"name":"s","key":"state"}}`)
	s.wait(t, "payloads", "secret", "Acked")
	shop.has(t, "payloads/secret", `{"hush":"quiet"}`)
	if out := s.kubectl(t, "-n", "payloads", "get", "statesync,events", "-o", "yaml"); strings.Contains(out, "quiet") {
		t.Errorf("a payload shows:\n%s", out)
	}
}

func (s *stage) syncInbound(t *testing.T) {
	s.namespace(t, "inbound")
	shop := s.shop(t)
	shop.put(t, "theirs", `{"a":1}`)
	s.keeper(t, shop, s.statesync("inbound", ""))
	s.sync(t, "inbound", "i", `"sink":"web","key":"theirs","direction":"Inbound","deletionPolicy":"Delete"`)
	s.wait(t, "inbound", "i", "Acked")
	path := syncPath("inbound", "i")
	if o := s.get(t, path); o.at("status", "observed", "content", "a") != 1.0 || o.at("status", "observed", "contentHash") == nil {
		t.Errorf("status: %v", o["status"])
	}
	s.remove(t, path)
	s.eventuallyGone(t, path)
	shop.has(t, "theirs", `{"a":1}`)
}

func (s *stage) syncBoth(t *testing.T) {
	s.namespace(t, "both")
	shop := s.shop(t)
	k := s.keeper(t, shop, s.statesync("both", ""))
	s.sync(t, "both", "b", `"sink":"web","direction":"Both","conflictPolicy":"TargetWins","payload":{"a":1}`)
	s.wait(t, "both", "b", "Acked")
	shop.has(t, "both/b", `{"a":1}`)
	path := syncPath("both", "b")
	observed := func(a float64) {
		t.Helper()
		eventually(t, fmt.Sprintf("its status shows a: %v", a), func() bool { return s.get(t, path).at("status", "observed", "content", "a") == a })
	}

	// What the target changed alone is taken over; the older words of the spec do not
	// undo it, neither in a full set nor after a restart.
	shop.put(t, "both/b", `{"a":2}`)
	observed(2)
	k.rescan(t, "team")
	k.kill(t, os.Kill)
	k.start(t)
	s.wait(t, "both", "b", "Acked")
	s.quiet(t, "both", "b", shop)
	shop.has(t, "both/b", `{"a":2}`)

	// What the spec changed alone is sent.
	s.edit(t, path, `{"spec":{"payload":{"a":3}}}`)
	s.wait(t, "both", "b", "Acked")
	shop.has(t, "both/b", `{"a":3}`)

	// Both changed while neither could know: the policy decides, once.
	k.kill(t, os.Kill)
	shop.put(t, "both/b", `{"a":4}`)
	s.edit(t, path, `{"spec":{"payload":{"a":5}}}`)
	k.start(t)
	observed(4)
	s.wait(t, "both", "b", "Acked")
	shop.has(t, "both/b", `{"a":4}`)
	s.edit(t, path, `{"spec":{"conflictPolicy":"SourceWins"}}`)
	s.wait(t, "both", "b", "Acked")
	k.kill(t, os.Kill)
	shop.put(t, "both/b", `{"a":6}`)
	s.edit(t, path, `{"spec":{"payload":{"a":7}}}`)
	k.start(t)
	eventually(t, "the spec's word arrives", func() bool { return shop.object(t, "both/b") == `{"a":7}` })
	s.wait(t, "both", "b", "Acked")
	s.quiet(t, "both", "b", shop)
}
