// Package docs runs the commands that stand in README.md and docs, in the order in which
// they stand there, on a machine of their own: a fresh folder, a network that nobody else
// is in, the built program, and what the page takes for granted. It has no code of its own.
//
// A block of commands is fenced with sh. Each command must succeed; a line of a block that
// begins with "# " is what the commands before it print, with … for what differs.
package docs
