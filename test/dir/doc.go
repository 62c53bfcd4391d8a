// Package dir runs the daemon with a directory as its source, as people run it: files
// are edited, and the quick start's target is asked what it has.
package dir
