module github.com/pawlsync/pawl/plugins

go 1.26.0

require (
	github.com/VictoriaMetrics/easyproto v1.2.0
	github.com/pawlsync/pawl/sdk/go v0.0.0
)

replace github.com/pawlsync/pawl/sdk/go => ../sdk/go
