package kube

import (
	"strings"
	"testing"
)

func TestAdmitClosesTheDoorsOutOfTheSandbox(t *testing.T) {
	for _, tc := range []struct{ path, query, refused string }{
		{"/api/v1/namespaces/a/configmaps/b", "", ""},
		{"/api/v1/namespaces/a", "", ""},
		{"/api/v1/namespaces/a/finalize", "", ""},
		{"/api/v1/namespaces/proxy/configmaps/token", "", ""},
		{"/api/v1/namespaces/a/pods/exec", "", ""},
		{"/apis/apps/v1/namespaces/a/deployments/b/scale", "", ""},
		{"/apis/example.com/v1/proxy/proxy", "", ""},
		{"/api", "", ""},
		{"/apis/apps/v1", "", ""},
		{"/version", "", ""},
		{"/api/v1/namespaces/a/configmaps", "limit=5&watch=false", ""},
		{"/api/v1/namespaces/a/serviceaccounts/b/token", "", `"token"`},
		{"/api/v1/namespaces/a/pods/b/exec", "command=sh", `"exec"`},
		{"/api/v1/namespaces/a/pods/b/attach", "", `"attach"`},
		{"/api/v1/namespaces/a/pods/b/portforward", "", `"portforward"`},
		{"/api/v1/namespaces/a/pods/b/proxy/admin/x", "", `"proxy"`},
		{"/api/v1/namespaces/a/services/b:80/proxy", "", `"proxy"`},
		{"/api/v1/nodes/b/proxy/pods", "", `"proxy"`},
		{"/api/v1/nodes/b/PROXY", "", `"proxy"`},
		{"/api/v1/proxy/nodes/b", "", "proxy"},
		{"/apis/example.com/v1/things/b/exec", "", `"exec"`},
		{"/apis/example.com/v1/namespaces/a/things/b/token/", "", `"token"`},
		{"/api/v1/namespaces/a/configmaps", "watch=1", `"watch"`},
		{"/api/v1/namespaces/a/pods/b/log", "follow=true", `"follow"`},
		{"/api/v1/namespaces/a/configmaps", "watch=%zz", "query"},
	} {
		err := Admit("GET", tc.path, tc.query)
		switch {
		case tc.refused == "" && err != nil:
			t.Errorf("%s?%s: %v", tc.path, tc.query, err)
		case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("%s?%s: %v, want a refusal that says %s", tc.path, tc.query, err, tc.refused)
		}
	}
}
