// Package web holds the page that a browser gets from a daemon at /ui: one
// document, a style sheet and ES modules, as they were written. Nothing is built,
// and nothing is loaded from elsewhere. docs/ui.md says what the page does.
package web

import "embed"

// Files are the page's, by the path below /ui/; index.html is /ui/ itself.
//
//go:embed index.html style.css icon.svg js
var Files embed.FS
