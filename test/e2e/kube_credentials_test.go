package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/kube"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// shortLived is how long the credentials are good that are to expire: long enough
// for one write on a busy machine.
const shortLived = 20 * time.Second

// expiring is a sink whose credentials expire and are renewed.
type expiring struct {
	name  string
	dir   string // of its files
	user  string // of its kubeconfig
	renew func(until time.Time)
	*rig
	generations []uint64
}

func (x *expiring) object(i int) string {
	return strings.ReplaceAll(x.name, " ", "-") + "-" + strconv.Itoa(i)
}
func (x *expiring) key(i int) string { return "v1/ConfigMap/expiry/" + x.object(i) }

// expiry: whichever way credentials come, those that expired hold back what is
// desired, and the renewed ones are taken up without a restart.
func (c *cluster) expiry(t *testing.T) {
	c.namespace(t, "expiry")
	account := c.create(t, "/api/v1/namespaces/expiry/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"keeper"}}`)
	c.grant(t, "expiry", `{"kind":"ServiceAccount","namespace":"expiry","name":"keeper"}`, "system:serviceaccount:expiry:keeper")
	c.grant(t, "expiry", `{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"holder"}`, "holder")
	ways := c.waysOfCredentials(t, account.at("metadata", "uid").(string))
	const n = 8
	put := func(x *expiring, v string) {
		x.generations = nil
		for i := range n {
			x.generations = append(x.generations, x.put(t, x.key(i), configMap("expiry", x.object(i), `{"v":"`+v+`"}`)))
		}
	}
	holds := func(x *expiring, v string) {
		t.Helper()
		for i := range n {
			if got := c.get(t, configMapPath("expiry", x.object(i))).at("data", "v"); got != v {
				t.Errorf("%s holds %v, want %s", x.object(i), got, v)
			}
		}
	}
	settled := func(x *expiring) {
		t.Helper()
		for i, g := range x.generations {
			if res := x.settle(t, x.key(i), g); !res.Done {
				t.Fatalf("%s: %+v", x.key(i), res)
			}
		}
	}
	for _, x := range ways {
		x.renew(time.Now().Add(shortLived))
		if x.user != "" {
			c.kubeconfigOf(t, x.dir, x.user)
		}
		k, err := kube.Open(kube.Options{Kubeconfig: filepath.Join(x.dir, "kubeconfig"), Context: "limited"})
		if err != nil {
			t.Fatal(err)
		}
		x.rig = start(t, c.connectOver(t, k.BaseURL(), k, `{}`), often)
		put(x, "before")
	}
	for _, x := range ways {
		settled(x)
	}
	for _, x := range ways {
		eventually(t, "the credentials expire: "+x.name, func() bool { return x.Sinks()[0].LastErrorStatus == sink.Unauthorized })
		put(x, "after")
	}
	for _, x := range ways {
		eventually(t, "it is told: "+x.name, func() bool {
			for i := range n {
				if st := x.status(t, x.key(i)); st.Phase == record.Pending && st.Reason == record.ReasonUnauthorized {
					return true
				}
			}
			return false
		})
		holds(x, "before")
		x.renew(time.Now().Add(time.Hour))
	}
	for _, x := range ways {
		settled(x)
		holds(x, "after")
	}
}

// waysOfCredentials are sinks with credentials of each kind: tokens of the service
// account with that uid, and certificates of the user "holder".
func (c *cluster) waysOfCredentials(t *testing.T, uid string) []*expiring {
	token := func(until time.Time) string {
		s, err := c.AccountToken("expiry", "keeper", uid, until)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	certificate := func(until time.Time) (certificate, key string) {
		a, b, err := c.Certificate("holder", until)
		if err != nil {
			t.Fatal(err)
		}
		return string(a), string(b)
	}
	file := func(x *expiring, name string) string { return filepath.Join(x.dir, name) }

	tokenFile := &expiring{name: "token file", dir: t.TempDir()}
	tokenFile.user = fmt.Sprintf("{tokenFile: %q}", file(tokenFile, "token"))
	tokenFile.renew = func(until time.Time) { replace(t, file(tokenFile, "token"), token(until)) }

	execToken := &expiring{name: "token of an exec plugin", dir: t.TempDir()}
	say := execToken.execPlugin(t)
	execToken.renew = func(until time.Time) { say(map[string]any{"token": token(until)}) }

	execCertificate := &expiring{name: "certificate of an exec plugin", dir: t.TempDir()}
	sayCertificate := execCertificate.execPlugin(t)
	execCertificate.renew = func(until time.Time) {
		certificate, key := certificate(until)
		sayCertificate(map[string]any{"clientCertificateData": certificate, "clientKeyData": key, "expirationTimestamp": until.UTC().Format(time.RFC3339)})
	}

	files := &expiring{name: "certificate files", dir: t.TempDir()}
	files.user = fmt.Sprintf("{client-certificate: %q, client-key: %q}", file(files, "client.crt"), file(files, "client.key"))
	files.renew = func(until time.Time) {
		certificate, key := certificate(until)
		replace(t, file(files, "client.crt"), certificate)
		replace(t, file(files, "client.key"), key)
	}

	inline := &expiring{name: "certificate in the kubeconfig", dir: t.TempDir()}
	inline.renew = func(until time.Time) {
		certificate, key := certificate(until)
		c.kubeconfigOf(t, inline.dir, fmt.Sprintf("{client-certificate-data: %s, client-key-data: %s}",
			base64.StdEncoding.EncodeToString([]byte(certificate)), base64.StdEncoding.EncodeToString([]byte(key))))
	}
	return []*expiring{tokenFile, execToken, execCertificate, files, inline}
}

// grant lets somebody keep ConfigMaps in a namespace, and waits until it is in force.
func (c *cluster) grant(t *testing.T, ns, subject, user string) {
	t.Helper()
	name := strings.ReplaceAll(user, ":", "-")
	c.create(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+ns+"/roles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",
		"metadata":{"name":"`+name+`"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","create","patch","delete"]}]}`)
	c.create(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+ns+"/rolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",
		"metadata":{"name":"`+name+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"`+name+`"},"subjects":[`+subject+`]}`)
	eventually(t, "the rights are granted", func() bool {
		o := c.create(t, "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",
			"spec":{"user":"`+user+`","resourceAttributes":{"namespace":"`+ns+`","verb":"patch","resource":"configmaps"}}}`)
		return o.at("status", "allowed") == true
	})
}

// kubeconfigOf writes dir/kubeconfig, with the given user in the context "limited".
func (c *cluster) kubeconfigOf(t *testing.T, dir, user string) {
	t.Helper()
	text, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, "kubeconfig"), strings.Replace(string(text), "{token: "+servers.TokenLimited+"}", user, 1))
}

// execPlugin makes x ask a program, which gives out what it was last told to.
func (x *expiring) execPlugin(t *testing.T) (say func(status map[string]any)) {
	t.Helper()
	program, answer := filepath.Join(x.dir, "login"), filepath.Join(x.dir, "answer")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec cat '"+answer+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	x.user = fmt.Sprintf("{exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never}}", program)
	return func(status map[string]any) {
		text, err := json.Marshal(map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
		if err != nil {
			t.Fatal(err)
		}
		replace(t, answer, string(text))
	}
}

// replace puts a file in the place of another at once, as who renews credentials does.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
