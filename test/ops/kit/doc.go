// Package kit runs the built program for tests that see it as an operator does: the
// daemon as a process, its commands, its log and its metrics. test/ops and test/docs
// stand on it.
package kit
