module github.com/pawlsync/pawl/sdk/go

go 1.26.0
