package e2e

import (
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

func (c *cluster) refusals(t *testing.T) {
	c.namespace(t, "refusals")
	r := c.rig(t, `{}`, engine.SinkOptions{})
	meta := func(kind, more string) string {
		return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"x","namespace":"refusals"` + more
	}
	for name, x := range map[string]struct{ key, payload, want string }{
		"not JSON":         {"", `{"apiVersion":`, "not valid JSON"},
		"no object":        {"", `[]`, "an array"},
		"no kind":          {"", `{"apiVersion":"v1","metadata":{"name":"x"}}`, "no kind"},
		"generateName":     {"", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-","namespace":"refusals"}}`, "generateName"},
		"resourceVersion":  {"", meta("ConfigMap", `,"resourceVersion":"7"}}`), "metadata.resourceVersion"},
		"managedFields":    {"", meta("ConfigMap", `,"managedFields":[{"manager":"me"}]}}`), "metadata.managedFields"},
		"status":           {"", meta("Service", `},"spec":{"ports":[{"port":1}]},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}`), "has a status"},
		"another name":     {"v1/ConfigMap/refusals/y", meta("ConfigMap", `}}`), "the key names ConfigMap refusals/y (v1), and the manifest is of ConfigMap refusals/x (v1)"},
		"another version":  {"apps/v1/ConfigMap/refusals/x", meta("ConfigMap", `}}`), "ConfigMap.apps refusals/x (apps/v1)"},
		"key of no object": {"some key", meta("ConfigMap", `}}`), "group/version/kind/namespace/name"},
		"path in a key":    {"v1/ConfigMap/refusals/..", meta("ConfigMap", `}}`), "the key's name"},
		"needs no ns":      {"v1/Namespace/refusals/x", meta("Namespace", `}}`), "Namespace is not namespaced"},
		"needs a ns":       {"v1/ConfigMap/x", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, "ConfigMap is namespaced"},
		"unknown field":    {"", meta("ConfigMap", `},"dataa":{"x":"hidden"}}`), "dataa"},
		"wrong type":       {"", meta("ConfigMap", `},"data":{"x":{"hidden":4711}}}`), "data"},
		"invalid name":     {"v1/ConfigMap/refusals/X_X", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"X_X","namespace":"refusals"}}`, "metadata.name"},
		"invalid value":    {"", meta("Service", `},"spec":{"ports":[{"port":471100,"protocol":"hidden"}]}}`), "spec.ports[0].port: Invalid value: …: must be"},
		"too large":        {"", meta("ConfigMap", `},"data":{"x":"`+strings.Repeat("hidden ", 40000)+`"},"binaryData":{"y":"`+strings.Repeat("aGlkZGVu", 30000)+`"}}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			key := x.key
			if key == "" {
				kind := "ConfigMap"
				if strings.Contains(x.payload, "Service") {
					kind = "Service"
				}
				key = "v1/" + kind + "/refusals/x"
			}
			res := r.settle(t, key, r.put(t, key, x.payload))
			if name == "too large" { // for Pawl it is not, nor for Kubernetes
				if !res.Done {
					t.Errorf("%s (%s): %s", res.Phase, res.Reason, res.Message)
				}
				return
			}
			if res.Phase != record.Failed || res.Reason != record.ReasonRejected || !strings.Contains(res.Message, x.want) ||
				strings.Contains(res.Message, "hidden") || strings.Contains(res.Message, "4711") {
				t.Errorf("%s (%s): %s\nwant %q", res.Phase, res.Reason, res.Message, x.want)
			}
		})
	}
}

func (c *cluster) immutable(t *testing.T) {
	c.namespace(t, "immutable")
	job := func(image string) string {
		return `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"immutable"},"spec":{"template":{"spec":{
			"restartPolicy":"Never","containers":[{"name":"c","image":"` + image + `"}]}}}}`
	}
	const key, path = "batch/v1/Job/immutable/j", "/apis/batch/v1/namespaces/immutable/jobs/j"
	r := c.rig(t, `{}`, engine.SinkOptions{})
	r.acked(t, key, job("one"))
	uid := c.get(t, path).at("metadata", "uid")
	res := r.settle(t, key, r.put(t, key, job("two")))
	if res.Phase != record.Failed || !strings.Contains(res.Message, "immutable") || !strings.Contains(res.Message, "recreate") || c.get(t, path).at("metadata", "uid") != uid {
		t.Errorf("%+v", res)
	}
	anew := c.rig(t, `{"recreate":["Job.batch"]}`, engine.SinkOptions{})
	anew.acked(t, key, job("one"))
	anew.acked(t, key, job("two"))
	o := c.get(t, path)
	if o.at("metadata", "uid") == uid || container(o, "c")["image"] != "two" {
		t.Errorf("it was not made anew: %v", o)
	}
}

func (c *cluster) admission(t *testing.T) {
	c.namespace(t, "admission")
	c.create(t, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{"apiVersion":"admissionregistration.k8s.io/v1",
		"kind":"ValidatingAdmissionPolicy","metadata":{"name":"no-bad"},"spec":{"failurePolicy":"Fail",
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]},
		"validations":[{"expression":"!object.metadata.name.startsWith('bad')","message":"bad names are not for us"}]}}`)
	c.create(t, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", `{"apiVersion":"admissionregistration.k8s.io/v1",
		"kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"no-bad"},"spec":{"policyName":"no-bad","validationActions":["Deny"],
		"matchResources":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"admission"}}}}}`)
	eventually(t, "the policy is in force", func() bool {
		status, _ := c.call(t, "POST", "/api/v1/namespaces/admission/configmaps?dryRun=All", "application/json", configMap("admission", "bad", `{}`))
		return status != 201
	})
	r := c.rig(t, `{}`, engine.SinkOptions{})
	const bad = "v1/ConfigMap/admission/bad"
	res := r.settle(t, bad, r.put(t, bad, configMap("admission", "bad", `{}`)))
	if res.Phase != record.Failed || res.Reason != record.ReasonRejected || !strings.Contains(res.Message, "bad names are not for us") {
		t.Errorf("%+v", res)
	}

	// A quota that is used up, until somebody raises it.
	c.create(t, "/api/v1/namespaces/admission/resourcequotas", `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"secrets":"1"}}}`)
	quota := func(hard string) {
		c.edit(t, "/api/v1/namespaces/admission/resourcequotas/q", `{"spec":{"hard":{"secrets":"`+hard+`"}}}`)
		c.edit(t, "/api/v1/namespaces/admission/resourcequotas/q/status", `{"status":{"hard":{"secrets":"`+hard+`"},"used":{"secrets":"1"}}}`)
	}
	quota("1")
	const key = "v1/Secret/admission/s"
	const secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"admission"}}`
	eventually(t, "the quota is in force", func() bool {
		status, _ := c.call(t, "POST", "/api/v1/namespaces/admission/secrets?dryRun=All", "application/json", secret)
		return status == 403
	})
	generation := r.put(t, key, secret)
	eventually(t, "the quota is used up", func() bool {
		st := r.status(t, key)
		return st.Reason == record.ReasonRetryable && strings.Contains(st.Message, "exceeded quota")
	})
	quota("5")
	if res := r.settle(t, key, generation); !res.Done {
		t.Errorf("%+v", res)
	}
}

func (c *cluster) rights(t *testing.T) {
	c.namespace(t, "rights")
	c.create(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/rights/roles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",
		"metadata":{"name":"few"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","create","patch"]},
		{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["get","create","patch"]}]}`)
	c.create(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/rights/rolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",
		"metadata":{"name":"few"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"few"},
		"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"limited"}]}`)
	eventually(t, "the rights are granted", func() bool {
		o := c.create(t, "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",
			"spec":{"user":"limited","resourceAttributes":{"namespace":"rights","verb":"patch","resource":"configmaps"}}}`)
		return o.at("status", "allowed") == true
	})
	r := start(t, c.connect(t, "limited", `{}`), engine.SinkOptions{})
	r.acked(t, "v1/ConfigMap/rights/c", configMap("rights", "c", `{"a":"1"}`))
	r.put(t, "v1/Secret/rights/s", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"rights"}}`)
	unauthorized := func(key, what string) {
		t.Helper()
		eventually(t, what+" is refused", func() bool {
			st := r.status(t, key)
			return st.Reason == record.ReasonUnauthorized && strings.Contains(st.Message, what)
		})
	}
	unauthorized("v1/Secret/rights/s", "cannot patch resource")
	r.put(t, "rbac.authorization.k8s.io/v1/Role/rights/more", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",
		"metadata":{"name":"more","namespace":"rights"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}`)
	unauthorized("rbac.authorization.k8s.io/v1/Role/rights/more", "attempting to grant RBAC permissions")
	// Its siblings go on.
	r.acked(t, "v1/ConfigMap/rights/d", configMap("rights", "d", `{"a":"1"}`))
}
