// Package config reads the daemon's configuration: one YAML file, environment
// variables and flags, in rising order of precedence, over defaults.
//
// It is strict. An unknown key, a value of the wrong type or out of range, a
// sink that names a missing plugin: each is an Error that says where (file,
// line and column, variable, or flag), what is wrong and what was probably
// meant, and Load reports all of them at once as Errors.
//
// The struct tags of Config are the only table of keys. Reference, the generated
// docs/config.md, the names of environment variables and the checks come from it.
package config

//go:generate go test . -run ^TestReferenceIsFresh$ -update
