package config

// checkSource wants exactly one kind, and of each what its keys can't say alone.
func (l *loader) checkSource(s Source, path string) {
	kinds := 0
	for _, set := range []bool{s.Dir != nil, s.Kube != nil, s.StateSync != nil, s.Pawl != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		l.wrong(path, "needs exactly one of dir, kube, statesync and pawl", "write one source for each place")
	}
}
