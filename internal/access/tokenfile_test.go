package access

import (
	"strings"
	"testing"
)

const goodHash = `"hash":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`

func TestWhatIsWrongWithATokenFileIsSaidWithItsLine(t *testing.T) {
	grants := `,"grants":[{"scope":"read"}]`
	for content, says := range map[string]string{
		"{":                             "line 1: it is no token",
		"\n{} ":                         "line 2: the token has no name",
		`{"name":"a"` + grants + `}`:    "the token has no hash",
		`{"name":"a",` + goodHash + `}`: "has no grants",
		`{"name":" a",` + goodHash + grants + `}`:                                                                                      `the name " a" is not allowed`,
		`{"name":"` + strings.Repeat("a", 65) + `",` + goodHash + grants + `}`:                                                         "at most 64",
		`{"name":"a","hash":"md5:00"` + grants + `}`:                                                                                   "sha256: and 64",
		`{"name":"a","hash":"sha256:zz` + strings.Repeat("a", 62) + `"` + grants + `}`:                                                 "sha256: and 64",
		`{"name":"a",` + goodHash + `,"grants":[{"scope":"root"}]}`:                                                                    `"root" is no scope`,
		`{"name":"a",` + goodHash + `,"grants":[{}]}`:                                                                                  `"" is no scope`,
		`{"name":"a",` + goodHash + `,"grants":[{"scope":"read","sinks":[""]}]}`:                                                       "a sink has a name",
		`{"name":"a",` + goodHash + `,"grants":[{"scope":"read","sink":"web"}]}`:                                                       `unknown field "sink"`,
		`{"name":"a",` + goodHash + `,"grants":[{"scope":"read","prefix":"` + strings.Repeat("k", 1025) + `"}]}`:                       "no key more than 1024",
		`{"name":"a",` + goodHash + grants + `,"senders":[""]}`:                                                                        "a sender has a name",
		`{"name":"a",` + goodHash + grants + `,"expires":"tomorrow"}`:                                                                  "it is no token",
		`{"name":"a",` + goodHash + grants + `} {}`:                                                                                    "something follows",
		`{"name":"a",` + goodHash + grants + "}\n# b\n" + `{"name":"a",` + strings.Replace(goodHash, "aaaa", "bbbb", 1) + grants + `}`: "line 3: it has the name of line 1",
		`{"name":"a",` + goodHash + grants + "}\n" + `{"name":"b",` + goodHash + grants + `}`:                                          "line 2: it has the token of line 1",
		"one two":                               "line 1: it is neither",
		"abc\xff":                               "line 1: it is not UTF-8",
		"same\nsame\n":                          "line 2: it has the token of line 1",
		`"name":"a",` + goodHash + grants + `}`: "line 1: it is neither",
	} {
		if list, err := ParseTokens([]byte(content)); err == nil || !strings.Contains(err.Error(), says) || list != nil {
			t.Errorf("%s: %v %v, want %q", content, list, err, says)
		}
	}
}

func TestAPlainTokenIsNeverRepeatedInAnError(t *testing.T) {
	for _, content := range []string{"s3cret s3cret", "s3cret\ns3cret", "s3cret\n{", "s3cret\xff"} {
		if _, err := ParseTokens([]byte(content)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// FuzzTokenFile: whatever the bytes, reading them ends, and what is read is valid, no two
// tokens of it have one name, and it is read as the same when it is written again.
func FuzzTokenFile(f *testing.F) {
	f.Add([]byte("# a\nplain\n{\"name\":\"a\"," + goodHash + ",\"grants\":[{\"scope\":\"write\",\"sinks\":[\"web\"],\"prefix\":\"u/\"}],\"senders\":[\"e\"],\"expires\":\"2026-01-01T00:00:00Z\"}\n"))
	f.Add([]byte("{\"name\":\"a\"," + goodHash + ",\"grants\":[{\"scope\":\"admin\"}],\"grants\":null}"))
	f.Add([]byte("\xef\xbb\xbf{}"))
	f.Add([]byte("{\"name\":\"line-2\"," + goodHash + ",\"grants\":[{\"scope\":\"read\"}]}\nplain\n")) // whose name would be line-2
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ParseTokens(data)
		if err != nil {
			return
		}
		var again []byte
		names := map[string]bool{}
		for i := range list {
			if names[list[i].Name] {
				t.Fatalf("two tokens have the name %q", list[i].Name)
			}
			names[list[i].Name] = true
			if err := list[i].Validate(); err != nil {
				t.Fatalf("an invalid token was read: %v", err)
			}
			if id := list[i].identity(); !list[i].Plain && !id.AllowsSome(Read, "") {
				t.Fatalf("a token that may do nothing was read: %+v", list[i])
			}
			again = append(again, list[i].line()...)
		}
		second, err := ParseTokens(again)
		if err != nil || len(second) != len(list) {
			t.Fatalf("what was written is not read: %v\n%s", err, again)
		}
		for i := range second {
			if second[i].Name != list[i].Name || second[i].Hash != list[i].Hash || !second[i].Expires.Equal(list[i].Expires) || len(second[i].Grants) != len(list[i].Grants) {
				t.Fatalf("%+v became %+v", list[i], second[i])
			}
		}
	})
}
