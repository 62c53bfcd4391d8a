package badger

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

// wayOut is what to do about damage that keeps a store from opening.
const wayOut = "restore a backup with `pawl store restore`, or get what can be read with `pawl store export --salvage`"

// Badger has no error values for these, and its words speak to whoever wrote it.
var (
	missingTable = regexp.MustCompile(`file does not exist for table (\d+)`)
	badTable     = regexp.MustCompile(`(\d+\.sst)"? err`)
	badLog       = regexp.MustCompile(`\d+\.(mem|vlog)`)
)

// plainly says in plain words why Badger can't open the folder data. It goes by what
// Badger says, and keeps that where it knows no better.
func plainly(data string, err error) error {
	text := err.Error()
	what := ""
	switch {
	case strings.Contains(text, "sanity text"), strings.Contains(text, "datakey"), strings.Contains(text, "data key"):
		what = filepath.Join(data, badger.KeyRegistryFileName) + ", which says how tables are encrypted, is damaged; " +
			"if this store is not encrypted it holds nothing: remove it, and it is made anew. Else"
	case missingTable.MatchString(text):
		number := missingTable.FindStringSubmatch(text)[1]
		what = fmt.Sprintf("the table %s is missing;", filepath.Join(data, fmt.Sprintf("%06s.sst", number)))
	case badTable.MatchString(text):
		what = fmt.Sprintf("the table %s is damaged: what it holds does not match its checksums;", filepath.Join(data, badTable.FindStringSubmatch(text)[1]))
	case badLog.MatchString(text):
		what = fmt.Sprintf("the log %s is damaged;", filepath.Join(data, badLog.FindString(text)))
	case strings.Contains(strings.ToLower(text), "manifest"):
		what = filepath.Join(data, badger.ManifestFilename) + ", the list of tables, is damaged;"
	default:
		return fmt.Errorf("%w: the files in %s can't be opened (%w); %s", outbox.ErrDamaged, data, err, wayOut)
	}
	return fmt.Errorf("%w: %s %s", outbox.ErrDamaged, what, wayOut)
}

// unreadable says what of a value is damaged.
func unreadable(key []byte, how string) error {
	return fmt.Errorf("%w: %s can't be read: %s", outbox.ErrDamaged, nameOf(key), how)
}

// nameOf says what stands below a key, as people know it.
func nameOf(key []byte) string {
	switch {
	case bytes.HasPrefix(key, []byte(docUser)):
		return fmt.Sprintf("the document %q", key[len(docUser):])
	case string(key) == docFormat:
		return "the format document"
	case bytes.HasPrefix(key, []byte(docBatch)):
		return "the number of a batch"
	}
	k, err := parseKey(key)
	switch {
	case err == nil && key[0] == kindDesired:
		return "what is desired of " + k.String()
	case err == nil && key[0] == kindStatus:
		return "the status of " + k.String()
	}
	return fmt.Sprintf("what stands below the key %q", key)
}
