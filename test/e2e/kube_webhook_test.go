package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// webhooks: what an admission webhook denies has failed; one that hangs, or that
// nobody answers for, is waited for.
func (c *cluster) webhooks(t *testing.T) {
	c.namespace(t, "webhooks")
	var hangs atomic.Bool
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct{ UID string }
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		if hangs.Load() {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false,
			"status":{"code":403,"message":"not on Sundays"}}}`, review.Request.UID)
	}))
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	const configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	c.create(t, configurations, fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
		"metadata":{"name":"sundays"},"webhooks":[{"name":"sundays.example.com","failurePolicy":"Fail","sideEffects":"None",
		"admissionReviewVersions":["v1"],"timeoutSeconds":1,"clientConfig":{"url":%q,"caBundle":%q},
		"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"webhooks"}},
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]}]}`,
		hook.URL, base64.StdEncoding.EncodeToString(ca)))
	eventually(t, "the webhook is in force", func() bool {
		status, _ := c.call(t, http.MethodPost, "/api/v1/namespaces/webhooks/configmaps?dryRun=All", "application/json", configMap("webhooks", "w", `{}`))
		return status == http.StatusForbidden
	})
	r := c.rig(t, `{}`, engine.SinkOptions{})
	const key = "v1/ConfigMap/webhooks/w"
	res := r.settle(t, key, r.put(t, key, configMap("webhooks", "w", `{"a":"1"}`)))
	if res.Phase != record.Failed || res.Reason != record.ReasonRejected || !strings.Contains(res.Message, "not on Sundays") {
		t.Errorf("%+v", res)
	}
	waits := func(what, says string) {
		t.Helper()
		eventually(t, what, func() bool {
			st := r.status(t, key)
			return st.Reason == record.ReasonRetryable && strings.Contains(st.Message, "failed calling webhook") && strings.Contains(st.Message, says)
		})
	}
	hangs.Store(true)
	generation := r.put(t, key, configMap("webhooks", "w", `{"a":"2"}`))
	waits("the webhook takes too long", "deadline exceeded")
	hook.CloseClientConnections()
	_ = hook.Listener.Close()
	waits("nobody answers for the webhook", "refused")
	c.remove(t, configurations+"/sundays")
	if res := r.settle(t, key, generation); !res.Done {
		t.Errorf("%+v", res)
	}
	if v := c.get(t, configMapPath("webhooks", "w")).at("data", "a"); v != "2" {
		t.Errorf("it holds %v", v)
	}
}
