package e2e

import (
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
