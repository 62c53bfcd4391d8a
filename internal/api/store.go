package api

import "time"

// StoreDetails is what the store holds and where.
type StoreDetails struct {
	Directory string    `json:"directory"`
	Format    int       `json:"format" doc:"Of the store on disk."`
	Epoch     string    `json:"epoch" doc:"Random identity of this store's life."`
	Revision  uint64    `json:"revision" doc:"Newest durable one."`
	Lossy     bool      `json:"lossy,omitempty" doc:"It was restored, or opened over a loss that was accepted."`
	Restored  time.Time `json:"restored,omitzero" doc:"When it was made of a backup or an export; absent: it was not."`
	BackedUp  time.Time `json:"backedUp,omitzero" doc:"When the newest backup ended; absent: there is none that the store knows of."`
	Key       string    `json:"key,omitempty" doc:"Fingerprint of the key that it is sealed with; absent: it is not sealed."`

	Resources  int         `json:"resources" doc:"Tombstones included."`
	Tombstones int         `json:"tombstones"`
	Statuses   int         `json:"statuses"`
	Sinks      []StoreSink `json:"sinks" nullable:"false"`

	Disk         StoreDisk `json:"disk"`
	FreeBytes    int64     `json:"freeBytes" doc:"Free on its file system; -1: unknown."`
	ReserveBytes int64     `json:"reserveBytes" doc:"Below it Puts are refused."`
	GarbageBytes int64     `json:"garbageBytes" doc:"What compaction could free, an estimate; -1: unknown."`
}

// StoreSink is what the store holds of one sink.
type StoreSink struct {
	Name      string `json:"name"`
	Resources int    `json:"resources"`
	Bytes     int64  `json:"bytes" doc:"Of desired states and statuses, as they are kept."`
}

// StoreDisk is what files occupy, in bytes.
type StoreDisk struct {
	Tables   int64 `json:"tables"`
	ValueLog int64 `json:"valueLog" doc:"Payloads, and what is left of those that were overwritten."`
	Logs     int64 `json:"logs" doc:"What is not in tables yet."`
	Journal  int64 `json:"journal"`
	Aside    int64 `json:"aside,omitempty" doc:"Tables that are kept because they may hold something that was lost."`
}

// StoreSince says what an incremental backup goes on from.
type StoreSince struct {
	Epoch    string `query:"sinceEpoch" doc:"Epoch of the backup that this one goes on from; absent: the store's own."`
	Revision uint64 `query:"sinceRevision" doc:"Its revision; absent: a full backup is made."`
	Version  uint64 `query:"sinceVersion" doc:"Its version, from its head; absent: every value is read to tell what changed."`
}
