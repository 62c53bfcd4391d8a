package config

import "time"

// SourceDir is a directory of documents.
type SourceDir struct {
	Path       string           `key:"path" type:"path" required:"yes" doc:"The directory, with all below it."`
	Include    []string         `key:"include" doc:"Patterns of the files that are read, relative to path; ** stands for any number of directories, as in team-*/**. Empty: all. Only .yaml, .yml and .json files that are not hidden are ever read."`
	Exclude    []string         `key:"exclude" doc:"Patterns of files and directories that are left out. A file .pawlignore leaves out as well, in its directory and below, as .gitignore does."`
	Rescan     time.Duration    `key:"rescan" default:"5m" min:"1s" max:"24h" doc:"How often everything is read again, besides what the file system tells."`
	Kubernetes *SourceManifests `key:"kubernetes" doc:"What becomes of documents that are manifests of Kubernetes: they have apiVersion and kind, and no sink. Absent: they are mistakes."`
}

// SourceManifests takes manifests of Kubernetes as they are.
type SourceManifests struct {
	Sink string `key:"sink" required:"yes" doc:"The sink that they are for, which has the plugin kube. The manifest is the payload."`
	Key  string `key:"key" doc:"The resource's key, with {{.group}}, {{.version}}, {{.kind}}, {{.namespace}} and {{.name}} of the manifest in it. Empty: as the plugin kube names objects, group/version/kind/namespace/name without what there is not."`
}
