package access

import (
	"strings"
	"testing"
)

func TestGrantsHoldWhereTheySayAndNowhereElse(t *testing.T) {
	all := Unrestricted("root", "token")
	reader := &Identity{Grants: []Grant{{Scope: Read}}}
	web := &Identity{Grants: []Grant{{Scope: Write, Sinks: []string{"web", "mail"}, Prefix: "users/"}, {Scope: Read, Sinks: []string{"db"}}}}
	keys := &Identity{Grants: []Grant{{Scope: Admin, Prefix: "team-a/"}}}
	for name, c := range map[string]struct {
		got, want bool
	}{
		"everything, admin":                  {all.AllowsAll(Admin), true},
		"everything, a key":                  {all.Allows(Write, "web", "k"), true},
		"read includes read":                 {reader.Allows(Read, "web", "k"), true},
		"read does not include write":        {reader.Allows(Write, "web", "k"), false},
		"read everywhere":                    {reader.AllowsAll(Read), true},
		"write includes read":                {web.Allows(Read, "web", "users/1"), true},
		"write does not include admin":       {web.Allows(Admin, "web", "users/1"), false},
		"the second of its sinks":            {web.Allows(Write, "mail", "users/1"), true},
		"a key beside the prefix":            {web.Allows(Write, "web", "user"), false},
		"another sink":                       {web.Allows(Write, "db", "users/1"), false},
		"the other grant":                    {web.Allows(Read, "db", "k"), true},
		"scopes don't mix across grants":     {web.Allows(Write, "db", "k"), false},
		"a prefix is not the whole sink":     {web.AllowsBelow(Write, "web", ""), false},
		"a longer prefix is within it":       {web.AllowsBelow(Write, "web", "users/a"), true},
		"a shorter one is not":               {web.AllowsBelow(Write, "web", "use"), false},
		"a whole sink":                       {web.AllowsBelow(Read, "db", ""), true},
		"some sinks are not every one":       {web.AllowsAll(Read), false},
		"a prefix at every sink":             {keys.AllowsBelow(Admin, "", "team-a/x"), true},
		"a prefix at every sink is not all":  {keys.AllowsAll(Read), false},
		"some of a sink":                     {web.AllowsSome(Write, "mail"), true},
		"nothing of a sink":                  {web.AllowsSome(Write, "db"), false},
		"something somewhere":                {web.AllowsSome(Write, ""), true},
		"nothing of that scope anywhere":     {web.AllowsSome(Admin, ""), false},
		"no scope allows nothing":            {all.Allows("", "web", "k"), false},
		"a scope that is none allows none":   {(&Identity{Grants: []Grant{{Scope: "root"}}}).Allows(Read, "web", "k"), false},
		"nobody":                             {From(t.Context()).AllowsSome(Read, ""), false},
		"the one who asks":                   {From(With(t.Context(), all)).AllowsAll(Admin), true},
		"an admin without senders":           {reader.MaySend("edge"), false},
		"a sender of its own":                {(&Identity{Senders: []string{"edge"}}).MaySend("edge"), true},
		"another's":                          {(&Identity{Senders: []string{"edge"}}).MaySend("edge-2"), false},
		"any sender":                         {all.MaySend("edge"), true},
		"any sender is no name of all names": {(&Identity{Senders: []string{"edge"}}).MaySend(AnySender), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

func TestADenialSaysWhichScopeIsMissingAndWhere(t *testing.T) {
	id := &Identity{Name: "ci", Kind: "token"}
	for where, want := range map[Where]string{
		Resource("web", "a/b"): `token "ci" lacks the scope write for sink "web", key "a/b"`,
		WholeSink("web"):       `token "ci" lacks the scope write for the whole of sink "web"`,
		Everything():           `token "ci" lacks the scope write for everything`,
	} {
		err := id.Check(Write, where)
		if d := AsDenial(err); d == nil || d.Error() != want || d.Identity != id {
			t.Errorf("got %v, want %q", err, want)
		}
		if err := Unrestricted("root", "token").Check(Write, where); err != nil {
			t.Errorf("root: %v", err)
		}
	}
}

func TestScopesAreReadByName(t *testing.T) {
	for _, s := range Scopes {
		if got, err := ParseScope(string(s)); got != s || err != nil {
			t.Errorf("%s: %v %v", s, got, err)
		}
	}
	for _, name := range []string{"", "READ", "root", "read "} {
		if s, err := ParseScope(name); err == nil || s != "" || !strings.Contains(err.Error(), "read, write or admin") {
			t.Errorf("%q: %q %v", name, s, err)
		}
	}
}
