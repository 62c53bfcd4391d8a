package main

import "github.com/pawlsync/pawl/plugins/internal/jsondoc"

// content is the object as a manifest could say it: what a manifest sets of it, as it
// is there; without a manifest all that is not the API server's own. Lists are whole,
// as they are to whoever replaces one.
func content(want *desired, live jsondoc.Value) []byte {
	if want != nil {
		return []byte(jsondoc.Project(want.root, live, nil))
	}
	return withoutServers(live, "")
}

// withoutServers is the object without its status and what of its metadata is the API
// server's own, but for the field of that name; "": none.
func withoutServers(live jsondoc.Value, but string) []byte {
	w := writer{b: append(make([]byte, 0, len(live.Raw())), '{')}
	for k, v := range live.Members {
		switch k {
		case "status":
		case "metadata":
			w.key(k)
			w.b = append(w.b, '{')
			for k, m := range v.Members {
				if k == but || !contains(serverFields, k) {
					w.key(k)
					w.b = append(w.b, m.Raw()...)
				}
			}
			w.b = append(w.b, '}')
		default:
			w.key(k)
			w.b = append(w.b, v.Raw()...)
		}
	}
	return append(w.b, '}')
}
