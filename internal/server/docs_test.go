package server

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheDocumentationHasEveryRouteAndEveryKindOfProblem(t *testing.T) {
	doc, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, _, hs := start(t, Options{})
	_, body := ask(t, "GET", hs.URL+"/openapi.json", "")
	var spec struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(body), &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Paths) == 0 {
		t.Fatal("no paths")
	}
	for path, methods := range spec.Paths {
		for method := range methods {
			if row := "| `" + strings.ToUpper(method) + " " + path + "` |"; !strings.Contains(string(doc), row) {
				t.Errorf("docs/api.md has no row %s", row)
			}
		}
	}
	source, err := os.ReadFile("../api/problem.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`Code = "(.*?)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 15 {
		t.Fatalf("only %d codes are found", len(codes))
	}
	for _, m := range codes {
		if !strings.Contains(string(doc), "\n### "+m[1]+"\n") {
			t.Errorf("docs/api.md has no section %q, which is where such a problem's type leads", m[1])
		}
	}
}
