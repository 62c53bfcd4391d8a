// Package api holds the values that travel between Pawl's daemon and its
// clients, as JSON, and the pure functions that both ends share: strict
// decoding, hiding what is sensitive, and explaining a resource in words.
//
// docs/api.md describes the API for people, docs/openapi.json for programs.
// Times are RFC 3339; an absent one means "never" or "not so". Durations are
// seconds and say so in their names, sizes are bytes.
package api
