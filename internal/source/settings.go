package source

// DirSettings say what a source of kind dir reads. They hold no secrets, so that
// whoever plans a change can read a folder by them.
type DirSettings struct {
	Path             string   // the directory
	Include, Exclude []string // patterns of paths below it; no Include: all
	// KubernetesSink takes manifests of Kubernetes as they are; empty: they are mistakes.
	KubernetesSink string
	KubernetesKey  string // template of their keys; empty: the form of the plugin kube
}

// dirSettings are those of a source of kind dir; nil: it is of another.
func dirSettings(s Source) *DirSettings {
	d, ok := s.(interface{ Settings() DirSettings })
	if !ok {
		return nil
	}
	settings := d.Settings()
	return &settings
}
