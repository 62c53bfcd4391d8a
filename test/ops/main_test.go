package ops

import (
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/test/ops/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

func web(key string) record.Key { return record.Key{Sink: "web", Name: key} }
