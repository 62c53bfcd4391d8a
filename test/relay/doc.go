// Package relay runs whole daemons that send to each other, as people run them: their
// links fail, their processes are killed, their stores are restored. What the last of
// them tells its target is held against what the first one was told.
package relay
