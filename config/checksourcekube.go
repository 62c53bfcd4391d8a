package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// namespaceWord is what Kubernetes takes for the name of a namespace.
var namespaceWord = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkSourceKube compares the keys of the sources that read from a cluster.
func (l *loader) checkSourceKube(c *Config, s Source, path string) {
	if k := s.Kube; k != nil {
		path := path + ".kube"
		l.checkKubernetes(k.Kubernetes, path+".kubernetes")
		l.checkNamespaces(k.Namespaces, path+".namespaces")
		if k.Sink != "" {
			if what, hint := c.noSink(k.Sink); what != "" {
				l.wrong(path+".sink", what, hint)
			}
		}
		if k.Payload != "" && !strings.HasPrefix(k.Payload, "/") {
			l.wrong(path+".payload", shown(k.Payload)+" is no JSON pointer", "start it with /, as in /data")
		}
	}
	if k := s.StateSync; k != nil {
		path := path + ".statesync"
		l.checkKubernetes(k.Kubernetes, path+".kubernetes")
		l.checkNamespaces(k.Namespaces, path+".namespaces")
		for i, sink := range k.Sinks {
			if what, hint := c.noSink(sink); what != "" {
				l.wrongItem(path+".sinks", i, what, hint)
			}
		}
	}
}

// noSink says that there is no sink of a name; "" if there is.
func (c *Config) noSink(name string) (what, hint string) {
	if _, there := c.Sinks[name]; there {
		return "", ""
	}
	return "no sink is called " + shown(name), cmp.Or(didYouMean(name, slices.Sorted(maps.Keys(c.Sinks))), "declare it below sinks")
}

// checkKubernetes wants a kubeconfig where a context of it is named.
func (l *loader) checkKubernetes(k Kubernetes, path string) {
	if k.Context != "" && k.Kubeconfig == "" {
		l.wrong(path+".context", "is a context of no kubeconfig", "set kubeconfig too")
	}
}

func (l *loader) checkNamespaces(names []string, path string) {
	for i, name := range names {
		if !namespaceWord.MatchString(name) {
			l.wrongItem(path, i, shown(name)+" is no name of a namespace", "write small letters, digits and dashes, as in team-a")
		}
	}
}
