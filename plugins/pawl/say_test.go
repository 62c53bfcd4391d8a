package main

import (
	"errors"
	"strings"
	"testing"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// A receiver refuses with 403 for either of two reasons, and its words are not
// repeated: the message has to name what to do about both.
func TestARefusedSenderIsToldOfItsDeclarationAndItsToken(t *testing.T) {
	a := &adapter{cfg: &config{hello: hello{sender: "edge-1"}}}
	err := a.classify(&pawl.HTTPResponse{Status: 403, Body: []byte("a proxy's words")})
	var refused *pawl.Error
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`sender "edge-1"`, "sources.NAME.pawl.senders", "pawl token new --sender"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "proxy") {
		t.Errorf("it repeats the answer: %v", err)
	}
}
