package conf

import (
	"errors"
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// Upstream chooses the upstream of that name among those granted; "" is the only one.
func Upstream(name string, granted []pawl.UpstreamRef) (pawl.UpstreamRef, error) {
	names := make([]string, len(granted))
	for i, u := range granted {
		if names[i] = u.Name; u.Name == name {
			return u, nil
		}
	}
	list := strings.Join(names, ", ")
	switch {
	case len(granted) == 0:
		return pawl.UpstreamRef{}, errors.New("config: upstream: the sink has no upstream; grant it one")
	case name == "" && len(granted) == 1:
		return granted[0], nil
	case name == "":
		return pawl.UpstreamRef{}, errors.New("config: upstream: which one of those granted? They are " + list)
	}
	if near := Nearest(name, names); near != "" {
		return pawl.UpstreamRef{}, errors.New("config: upstream: \"" + name + "\" is not granted; did you mean \"" + near + "\"?")
	}
	return pawl.UpstreamRef{}, errors.New("config: upstream: \"" + name + "\" is not granted; granted are " + list)
}
