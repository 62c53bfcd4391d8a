package engine

import "github.com/pawlsync/pawl/engine/record"

// PageAfter is the token of the page of a list that begins after a key: what
// Page.Next is where k is the last of a page.
func PageAfter(k record.Key) string { return pageAfter(k) }
