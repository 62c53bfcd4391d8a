package server

import (
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/source"
)

func sourcesOf(list []source.Status) []api.Source {
	out := make([]api.Source, len(list))
	for i := range list {
		out[i] = sourceOf(&list[i])
	}
	return out
}

func sourceOf(st *source.Status) api.Source {
	out := api.Source{
		Name: st.Name, Kind: st.Kind, Group: st.Group, Senders: st.Senders, Declares: st.Declares, State: sourceState(st),
		Trouble: st.Trouble, TroubleAt: st.TroubleAt, FullAt: st.FullAt, FullItems: st.FullItems, ContactAt: st.ContactAt, Unswept: st.Unswept,
		Resources: st.Resources, Kept: st.Kept, Held: st.Held, HeldAt: st.HeldAt, HeldWhy: st.HeldWhy,
	}
	out.Deletion = st.Deletion
	if d := st.Dir; d != nil {
		out.Dir = &api.SourceDir{Path: d.Path, Include: d.Include, Exclude: d.Exclude, KubernetesSink: d.KubernetesSink, KubernetesKey: d.KubernetesKey}
	}
	for _, p := range st.Problems {
		out.Problems = append(out.Problems, api.SourceProblem{Sink: p.Key.Sink, Key: p.Key.Name, Place: p.Place, Message: p.Message, Refused: p.Refused})
	}
	if st.Configured && !st.Senders {
		f := st.Fuse
		out.Fuse = &api.SourceFuse{
			Blown: st.Blown, Window: api.Duration(f.Window), Share: f.Share, AtLeast: f.AtLeast,
			Deleted: st.Deleted, Allowed: st.Allowed, Largest: st.LargestOf,
		}
	}
	return out
}

func sourceState(st *source.Status) string {
	switch {
	case !st.Configured:
		return api.SourceNotConfigured
	case st.Senders:
		return api.SourceDeclares
	case st.Trouble != "":
		return api.SourceFailing
	case st.Starting || !st.Up:
		return api.SourceStarting
	}
	return api.SourceRunning
}

func heldOf(h *source.Held) api.SourceHeld {
	out := api.SourceHeld{Items: make([]api.SourceHeldItem, len(h.Items)), Total: h.Total, BySink: h.BySink, Digest: h.Digest, Why: h.Why, Since: h.Since}
	for i, it := range h.Items {
		out.Items[i] = api.SourceHeldItem{Sink: it.Key.Sink, Key: it.Key.Name, Place: it.Place}
	}
	if h.Next != nil {
		out.Next = heldPage(*h.Next)
	}
	return out
}
